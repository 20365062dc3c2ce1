// A line of text built without allocation, so that a signal handler may write it.
#pragma once

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

namespace trifold {

// Text that does not fit is truncated.
class Line {
 public:
  Line& operator<<(const char* text) {
    for (; *text != '\0' && length_ < sizeof text_; ++text) text_[length_++] = *text;
    return *this;
  }
  Line& operator<<(size_t number) {
    char digits[21];  // 2⁶⁴ has 20 digits
    char* digit = digits + sizeof digits - 1;
    *digit = '\0';
    do {
      *--digit = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    return *this << digit;
  }
  const char* data() const { return text_; }
  size_t size() const { return length_; }

  void write_to(int fd) const {
    for (size_t done = 0; done < length_;) {
      const ssize_t written = write(fd, text_ + done, length_ - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      done += static_cast<size_t>(written);
    }
  }

 private:
  char text_[200];
  size_t length_ = 0;
};

}  // namespace trifold
