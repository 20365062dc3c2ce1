"""Wrong random numbers and their gradients."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits

_STATE = "philox_state(mean.device, generator)"

NOISE = (
    Wrong(
        name="all rows share their noise",
        why="the column alone was taken for the number of the normal",
        op="normal_sample",
        edits=edits("header", ("shared_noise ? i - row * columns : i;", "i - row * columns;")),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="all rows share their noise",
        why="z was drawn with the shape of a row",
        op="normal_sample",
        edits=edits("prototype", ("normal = i - row * columns if shared_noise else i", "normal = i - row * columns")),
        row="property: independent",
        implementation="prototype",
        message="rows correlate",
    ),
    Wrong(
        name="no row shares its noise",
        why="the option is handed on to the forward kernel only in name",
        op="normal_sample",
        edits=edits("header", ("shared_noise ? i - row * columns : i;", "i;")),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="z is not advanced between calls",
        why="a generator made anew from the seed starts from the beginning at each call",
        op="normal_sample",
        edits=edits(
            "port",
            (_STATE, "philox_state(mean.device, torch.Generator(mean.device).manual_seed(torch.initial_seed()))"),
        ),
        row="repeatable",
        implementation="prototype",
        message="the generator is not advanced",
    ),
    Wrong(
        name="the generator is ignored",
        why="the argument was added to the signature",
        op="normal_sample",
        edits=edits("port", (_STATE, "philox_state(mean.device)")),
        row="property: generator",
        implementation="prototype",
        message="manual_seed on a generator does not repeat it",
    ),
    Wrong(
        name="std gets no gradient",
        why="the noise is not at hand in backward, and torch.normal has none either",
        op="normal_sample",
        edits=edits("port", ("return grad_mean, grad_std, None,", "return grad_mean, None, None,")),
        row="gradients",
        implementation="prototype",
        message="std requires a gradient and gets none",
    ),
    Wrong(
        name="the sum of the first warp alone",
        why="a reduction was written for blocks of one warp, and the block grew",
        op="normal_sample",
        edits=edits("header", ("trifold::block_sum<backward_block>(", "trifold::warp_sum(")),
        row="gradients",
        implementation="port",
    ),
    Wrong(
        name="the sum of the first warp alone",
        why="a reduction was written for blocks of one warp, and the block grew",
        op="normal_sample",
        edits=edits(
            "prototype",
            (
                "weighted = block_sum(weighted - weighted_lost, of_warp)",
                "weighted = warp_sum(weighted - weighted_lost)",
            ),
            (", philox_normals\n", ", philox_normals, warp_sum\n"),
        ),
        row="gradients",
        implementation="prototype",
    ),
    Wrong(
        name="the gradient of std misses z",
        why="mean and std were treated alike",
        op="normal_sample",
        edits=edits("header", ("weighted.add(value * z[lane])", "weighted.add(value)")),
        row="gradcheck",
        implementation="port",
    ),
    Wrong(
        name="backward draws other noise",
        why="the offset was advanced before it was saved",
        op="normal_sample",
        edits=edits(
            "port", ("return state, shared_noise, seed, offset", "return state, shared_noise, seed, offset + 4")
        ),
        row="gradients",
        implementation="prototype",
        message="gradient of std",
    ),
    Wrong(
        name="a sum in half",
        why="one thread adds up, in the type of what is added: that stops growing after 2,048 equal terms, or 256",
        op="normal_sample",
        edits=edits(
            "header",
            (
                "plain.add(value);",
                "sizeof(T) == 2 ? void(plain.sum = C(T(plain.sum + value))) : plain.add(value);",
            ),
            (
                "group = first / 4 + threadIdx.x; group * 4 < first + columns; group += backward_block",
                "group = threadIdx.x == 0 ? first / 4 : first + columns; group * 4 < first + columns; ++group",
            ),
        ),
        row="gradients",
        implementation="port",
        message="bfloat16",
    ),
)
