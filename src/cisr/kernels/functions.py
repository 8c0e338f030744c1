"""Functions made of a machine's basic operations, right to the last digit or two.

Basic operations beyond JAX's are `fma` (a·b + c, rounded once), `select` (condition, one, other), `trunc`, `whole` (a
float as an integer), `bits` and `of_bits` (a float's bits as an integer and back), and shifts by a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

Basic = Callable[..., Any]
F, D, WHOLE = np.float32, np.float64, np.int32

HALF_PI = (math.pi / 2, 6.123233995736766e-17)
"""As a sum."""
FARTHEST = 2.0**31
SINE = (-0.00019517298981385725, 0.008332178146138854, -0.16666654943701084)
COSINE = (2.4390450703564542e-05, -0.001388676379437604, 0.041666623324344516, -0.49999999725108224)
"""In double precision, by the powers that GNU's C library has in its sinf and cosf: what is rounded to a single then is
the same single."""
LN_2 = (0.693359375, -2.12194440e-4)
"""ln 2 likewise."""
EXPONENTIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
LOGARITHM = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
TANGENT = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
BIAS, FRACTION_BITS = 127, 23
SMALLEST_NORMAL = 2.0**-126


def polynomial(do: Basic, coefficients: Sequence[float], x: Any) -> Any:
    """The highest power comes first."""
    highest, second, *others = map(F, coefficients)
    value = do("fma", highest, x, second)
    for coefficient in others:
        value = do("fma", value, x, coefficient)
    return value


def _without(do: Basic, x: Any, times: Any, parts: Sequence[float]) -> Any:
    """x less so many times a sum of parts."""
    for part in parts:
        x = do("fma", times, F(-part), x)
    return x


def sine(do: Basic, x: Any, quarters: int = 0) -> Any:
    """Of x + quarters·π/2, as the C library has it. For angles of many thousand turns digits are lost; beyond
    `FARTHEST` it is no number."""
    rest, quarter = _beyond_quarters(do, do("convert", x, np.float64), quarters)
    z = do("mul", rest, rest)
    cube = do("mul", rest, z)
    odd = do(
        "add", do("mul", do("mul", cube, z), _line(do, SINE[1], SINE[0], z)), do("add", rest, _times(do, cube, SINE[2]))
    )
    square = do("mul", z, z)
    even = do("add", _line(do, 1.0, COSINE[3], z), _times(do, square, COSINE[2]))
    even = do("add", even, do("mul", do("mul", square, z), _line(do, COSINE[1], COSINE[0], z)))
    return do("convert", _of_quarter(do, quarter, odd, even), np.float32)


def _line(do: Basic, start: float, slope: float, z: Any) -> Any:
    return do("add", D(start), _times(do, z, slope))


def _times(do: Basic, z: Any, factor: float) -> Any:
    return do("mul", z, D(factor))


def sine_of_double(do: Basic, x: Any, quarters: int = 0) -> Any:
    """The same in double precision, by Taylor's series."""
    rest, quarter = _beyond_quarters(do, x, quarters)
    z = do("mul", rest, rest)
    odd, even = D(0), D(0)
    for power in range(18, 0, -2):
        sign = -1 if power // 2 % 2 else 1
        even = do("mul", z, do("add", even, D(sign / math.factorial(power))))
        odd = do("mul", z, do("add", odd, D(sign / math.factorial(power + 1))))
    odd, even = do("add", rest, do("mul", rest, odd)), do("add", D(1), even)
    return _of_quarter(do, quarter, odd, even)


def _beyond_quarters(do: Basic, x: Any, quarters: int) -> tuple[Any, Any]:
    """What is left of an angle beyond the nearest quarter of a turn, and the number of that quarter."""
    x = do("select", do("lt", do("abs", x), D(FARTHEST)), x, D(np.nan))
    turns = do("round", _times(do, x, 2 / math.pi))
    for part in HALF_PI:
        x = do("sub", x, _times(do, turns, part))
    return x, do("add", do("whole", turns), WHOLE(quarters))


def _of_quarter(do: Basic, quarter: Any, odd: Any, even: Any) -> Any:
    swapped, negative = (do("ne", do("and", quarter, WHOLE(bit)), WHOLE(0)) for bit in (1, 2))
    value = do("select", swapped, even, odd)
    return do("select", negative, do("neg", value), value)


def power_of_two(do: Basic, n: Any, times: Any) -> Any:
    """times·2ⁿ for whole n from −252 to 254: in two steps, so that it may overflow or vanish but for one rounding."""
    half = do("shift_right", n, 1)
    for part in (half, do("sub", n, half)):
        times = do("mul", times, do("of_bits", do("shift_left", do("add", part, WHOLE(BIAS)), FRACTION_BITS)))
    return times


def exponential(do: Basic, x: Any, base: int | None = None) -> Any:
    """eˣ, or 2ˣ."""
    low, high = (-152, 130) if base == 2 else (-105, 90)
    kept = do("min", do("max", x, F(low)), F(high))  # what is no number stays none
    n = do("round", kept if base == 2 else do("mul", kept, F(1 / math.log(2))))
    rest = do("mul", do("sub", kept, n), F(math.log(2))) if base == 2 else _without(do, kept, n, LN_2)
    value = do("fma", polynomial(do, EXPONENTIAL, rest), do("mul", rest, rest), rest)
    return power_of_two(do, do("whole", n), do("add", value, F(1)))


def logarithm(do: Basic, x: Any, base: int | None = None) -> Any:
    """ln x, or log₂ x, which is exact where x is a power of 2."""
    tiny = do("lt", x, F(SMALLEST_NORMAL))
    bits = do("bits", do("select", tiny, do("mul", x, F(2.0**FRACTION_BITS)), x))
    exponent = do("sub", do("shift_right", bits, FRACTION_BITS), WHOLE(BIAS - 1))
    exponent = do("select", tiny, do("sub", exponent, WHOLE(FRACTION_BITS)), exponent)
    fraction = do(
        "of_bits", do("add", do("and", bits, WHOLE((1 << FRACTION_BITS) - 1)), WHOLE((BIAS - 1) << FRACTION_BITS))
    )
    low = do("lt", fraction, F(math.sqrt(0.5)))  # it is between a half and one
    exponent = do("convert", do("select", low, do("sub", exponent, WHOLE(1)), exponent), np.float32)
    rest = do("sub", do("select", low, do("add", fraction, fraction), fraction), F(1))
    square = do("mul", rest, rest)
    value = do("mul", do("mul", polynomial(do, LOGARITHM, rest), square), rest)
    if base == 2:
        value = do("add", do("fma", F(-0.5), square, value), rest)
        value = do("fma", value, F(1 / math.log(2)), exponent)
    else:
        value = do("fma", exponent, F(LN_2[1]), value)
        value = do("add", do("fma", F(-0.5), square, value), rest)
        value = do("fma", exponent, F(LN_2[0]), value)
    value = do("select", do("eq", x, F(0)), F(-np.inf), value)
    value = do("select", do("ge", x, F(0)), value, F(np.nan))
    return do("select", do("eq", x, F(np.inf)), x, value)


def logarithm_of_one_more(do: Basic, x: Any) -> Any:
    """ln(1 + x), also of x so small that 1 + x rounds its digits off."""
    more = do("add", x, F(1))
    beyond = do("sub", more, F(1))
    exact = do("or", do("eq", beyond, F(0)), do("eq", more, F(np.inf)))
    mended = do("mul", logarithm(do, more), do("div", x, do("select", exact, F(1), beyond)))
    return do("select", do("eq", beyond, F(0)), x, do("select", do("eq", more, F(np.inf)), x, mended))


def hyperbolic_tangent(do: Basic, x: Any) -> Any:
    size = do("abs", x)
    square = do("mul", x, x)
    near = do("fma", do("mul", polynomial(do, TANGENT, square), square), x, x)
    far = do("sub", F(1), do("div", F(2), do("add", exponential(do, do("add", size, size)), F(1))))
    far = do("select", do("lt", x, F(0)), do("neg", far), far)
    return do("select", do("lt", size, F(0.625)), near, far)


def logistic(do: Basic, x: Any) -> Any:
    return do("div", F(1), do("add", exponential(do, do("neg", x)), F(1)))


def sign(do: Basic, x: Any) -> Any:
    return do("select", do("gt", x, F(0)), F(1), do("select", do("lt", x, F(0)), F(-1), x))


def remainder(do: Basic, a: Any, b: Any) -> Any:
    """With the sign of a; exact: each division in double precision takes 52 bits off the quotient, which may have
    277."""
    rest, divisor = do("convert", a, D), do("convert", b, D)
    for _ in range(6):
        times = do("trunc", do("div", rest, divisor))
        rest = do("fma", do("neg", times), divisor, rest)
    size, below = do("abs", divisor), do("lt", a, F(0))
    crossed = do("and", do("ne", do("lt", rest, D(0)), below), do("ne", rest, D(0)))  # a quotient was rounded up
    rest = do("select", crossed, do("add", rest, do("select", below, do("neg", size), size)), rest)
    rest = do("convert", rest, F)
    rest = do("select", do("eq", rest, F(0)), do("mul", a, F(0)), rest)  # there is a zero with a sign
    return do("select", do("and", is_finite(do, a), do("eq", do("abs", b), F(np.inf))), a, rest)


def whole_quotient(do: Basic, a: Any, b: Any) -> Any:
    """Of whole numbers, towards zero; −1 for a division by zero, as in JAX. A processor would stop there."""
    if isinstance(b, np.integer) and b not in (0, -1):
        return do("div", a, b)
    none, minus = do("eq", b, WHOLE(0)), do("eq", b, WHOLE(-1))
    quotient = do("div", a, do("select", do("or", none, minus), WHOLE(1), b))
    return do("select", none, WHOLE(-1), do("select", minus, do("neg", a), quotient))


def whole_remainder(do: Basic, a: Any, b: Any) -> Any:
    """With the sign of a; a itself for a division by zero."""
    if isinstance(b, np.integer) and b > 0:
        return do("rem", a, b)
    return do("sub", a, do("mul", whole_quotient(do, a, b), b))


def is_finite(do: Basic, x: Any) -> Any:
    return do("lt", do("abs", x), F(np.inf))


def clamp(do: Basic, low: Any, x: Any, high: Any) -> Any:
    return do("min", do("max", x, low), high)


def whole_power(do: Basic, x: Any, exponent: int) -> Any:
    """By squaring."""
    if exponent < 0:
        return do("div", F(1), whole_power(do, x, -exponent))
    value, square = None, x
    while exponent:
        if exponent % 2:
            value = square if value is None else do("mul", value, square)
        exponent //= 2
        square = do("mul", square, square) if exponent else square
    return F(1) if value is None else value


def half_power(do: Basic, x: Any, exponent: float) -> Any:
    """For exponents of which the double is whole."""
    if exponent < 0:
        return do("div", F(1), half_power(do, x, -exponent))
    whole = math.floor(exponent)
    if whole == exponent:
        return whole_power(do, x, whole)
    signless = do("add", x, F(0))  # there is a zero with a sign, and −∞ has a power though it has no root
    root = do("sqrt", do("select", do("eq", x, F(-np.inf)), F(np.inf), signless))
    x = do("abs", signless)
    return root if whole == 0 else do("mul", root, whole_power(do, x, whole))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cos": partial(sine, quarters=1),
    "exp": exponential,
    "exp2": partial(exponential, base=2),
    "is_finite": is_finite,
    "log": logarithm,
    "log2": partial(logarithm, base=2),
    "log1p": logarithm_of_one_more,
    "logistic": logistic,
    "sign": sign,
    "sin": sine,
    "square": lambda do, x: do("mul", x, x),
    "tanh": hyperbolic_tangent,
}
"""Of single-precision numbers, by JAX's names."""
OF_DOUBLES: dict[str, Callable[..., Any]] = {"cos": partial(sine_of_double, quarters=1), "sin": sine_of_double}
"""The few of double precision."""
