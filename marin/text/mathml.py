"""Convert MathML to LaTeX, for pages without the original LaTeX."""

# pyright: basic
from __future__ import annotations

from typing import Any

GREEK = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon varphi chi "
    "psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega epsilon phi"
)
SYMBOLS = dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩϵϕ", GREEK.split(), strict=True))
SYMBOLS |= {
    "∑": "sum", "∏": "prod", "∫": "int", "∮": "oint", "∂": "partial", "∇": "nabla", "∞": "infty", "±": "pm",
    "×": "times", "⋅": "cdot", "·": "cdot", "÷": "div", "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx",
    "≡": "equiv", "∼": "sim", "→": "to", "←": "leftarrow", "⇒": "Rightarrow", "⇔": "Leftrightarrow", "↦": "mapsto",
    "∈": "in", "∉": "notin", "⊂": "subset", "⊆": "subseteq", "∪": "cup", "∩": "cap", "∅": "emptyset", "∀": "forall",
    "∃": "exists", "¬": "neg", "∧": "wedge", "∨": "vee", "…": "ldots", "⋯": "cdots", "ℝ": "mathbb{R}",
    "ℕ": "mathbb{N}", "ℤ": "mathbb{Z}", "ℚ": "mathbb{Q}", "ℂ": "mathbb{C}", "⟨": "langle", "⟩": "rangle",
}  # fmt: skip
PLAIN = {"−": "-", "{": r"\{", "}": r"\}", "%": r"\%", "′": "'", "\u2061": "", "\u2062": "", "\u2063": "", "\u2064": ""}
OVER = {"^": "hat", "¯": "bar", "‾": "overline", "→": "vec", "~": "tilde", "˙": "dot", "¨": "ddot"}
FUNCTION_NAMES = "sin cos tan cot sec csc sinh cosh tanh log ln exp lim max min sup inf det dim ker gcd"
FUNCTIONS = frozenset(FUNCTION_NAMES.split())
HIDDEN = ("annotation", "annotation-xml", "mphantom", "none", "mprescripts")


def latex_of(math: Any) -> str:
    """Return the LaTeX of a MathML element. math: the element, as resiliparse parsed it."""
    return " ".join(_row(math).split())


def _row(node: Any) -> str:
    return " ".join(filter(None, (_latex(each) for each in _elements(node))))


def _elements(node: Any) -> list[Any]:
    return [each for each in node.child_nodes if each.tag and not each.tag.startswith("#")]


def _latex(node: Any) -> str:
    tag, inner = node.tag, _elements(node)
    if tag in ("mi", "mn", "mo", "ms"):
        return _token(tag, "".join(node.text.split()), node.getattr("mathvariant") or "")
    if tag == "mtext":
        words = " ".join(node.text.split())
        return rf"\text{{{words}}}" if words else ""
    if tag in HIDDEN:
        return ""
    if tag == "mspace":
        return r"\;"
    parts = [_latex(each) for each in inner]
    match tag, parts:
        case "mfrac", [above, below]:
            return rf"\frac{{{above}}}{{{below}}}"
        case "msqrt", _:
            return rf"\sqrt{{{' '.join(parts)}}}"
        case "mroot", [under, degree]:
            return rf"\sqrt[{degree}]{{{under}}}"
        case "msup", [base, above]:
            return f"{_base(base)}^{{{above}}}"
        case (("msub" | "munder"), [base, below]):
            return f"{_base(base)}_{{{below}}}"
        case (("msubsup" | "munderover"), [base, below, above]):
            return f"{_base(base)}_{{{below}}}^{{{above}}}"
        case "mover", [base, above]:
            accent = OVER.get("".join(inner[1].text.split()))
            return rf"\{accent}{{{base}}}" if accent else f"{_base(base)}^{{{above}}}"
        case "mtable", _:
            return rf"\begin{{matrix}} {r' \\ '.join(parts)} \end{{matrix}}"
        case (("mtr" | "mlabeledtr"), _):
            return " & ".join(parts)
        case "mfenced", _:
            opening, closing = node.getattr("open") or "(", node.getattr("close") or ")"
            return rf"\left{_fence(opening)} {', '.join(parts)} \right{_fence(closing)}"
    return " ".join(filter(None, parts)) or (_token("mi", "".join(node.text.split()), "") if not inner else "")


def _token(tag: str, text: str, variant: str) -> str:
    if text in FUNCTIONS:
        return rf"\{text}"
    if text in PLAIN:
        return PLAIN[text]
    written = "".join(rf"\{SYMBOLS[each]} " if each in SYMBOLS else PLAIN.get(each, each) for each in text).strip()
    if tag == "mi" and len(text) > 1 and text.isalpha() and text.isascii():
        return rf"\mathrm{{{written}}}"
    if variant == "bold" and written:
        return rf"\mathbf{{{written}}}"
    return written


def _base(written: str) -> str:
    return written if len(written) <= 1 or (written.startswith("\\") and " " not in written) else f"{{{written}}}"


def _fence(bracket: str) -> str:
    return PLAIN.get(bracket, bracket)
