// The variable to which an allocation's address goes, from the source line that allocates.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>

#include "device_memory.h"

namespace trifold::cpu {
namespace {

std::string source_line(Line line) {
  std::ifstream stream(line.file == nullptr ? "" : line.file);
  std::string text;
  for (int at = 0; at < line.line && std::getline(stream, text);) ++at;
  return stream ? text : "";
}

// "p->next" of "p->next = (Node*)malloc(sizeof(Node));" and of "p->next = new Node;".
std::string assigned_variable(const std::string& text) {
  const size_t call = std::min(text.find("malloc"), text.find("new "));
  const size_t sign = text.find_last_of('=', call == text.npos ? call : call - 1);
  if (call == text.npos || call == 0 || sign == text.npos) return "";
  const size_t end = text.find_last_not_of(' ', sign - 1);
  if (sign == 0 || end == text.npos) return "";
  const size_t before = text.find_last_of(" *&;{(,", end);
  return text.substr(before == text.npos ? 0 : before + 1, end - (before == text.npos ? 0 : before + 1) + 1);
}

// "x" of "thrust::device_vector<float> x(n);"; empty if the line declares none, or several.
std::string declared_vector(const std::string& text) {
  size_t at = text.find("_vector<");
  if (at == text.npos) return "";
  at = text.find('<', at);
  for (int depth = 0; at < text.size(); ++at) {
    depth += text[at] == '<' ? 1 : text[at] == '>' ? -1 : 0;
    if (depth == 0) break;
  }
  const size_t begin = text.find_first_not_of(" >", at);
  if (begin == text.npos) return "";
  const auto is_name = [](char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const size_t end = static_cast<size_t>(
      std::find_if_not(text.begin() + static_cast<ptrdiff_t>(begin), text.end(), is_name) - text.begin());
  int depth = 0;
  for (size_t next = end; next < text.size(); ++next) {
    const char c = text[next];
    depth += c == '(' || c == '{' || c == '<' ? 1 : c == ')' || c == '}' || c == '>' ? -1 : 0;
    if (c == ',' && depth == 0) return "";
  }
  return text.substr(begin, end - begin);
}

}  // namespace

std::string Allocation::variable() const {
  const std::string text = source_line(made);
  if (kind == MemoryKind::heap) return assigned_variable(text);
  const size_t call = text.find("cudaMalloc");
  if (call == text.npos) return declared_vector(text);
  if (text.find("cudaMalloc", call + 1) != text.npos) return "";
  // The expression after the address-of operator: cudaMalloc(&x, …), cudaMalloc((void**)&p->x, …).
  size_t at = text.find_first_of("&,", call);
  if (at == text.npos || text[at] != '&') return "";
  const size_t begin = text.find_first_not_of(" (", at + 1);
  if (begin == text.npos) return "";
  size_t end = begin;
  for (int depth = 0; end < text.size(); ++end) {
    const char c = text[end];
    if (depth == 0 && (c == ',' || c == ')' || c == ' ')) break;
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
  }
  return text.substr(begin, end - begin);
}

}  // namespace trifold::cpu
