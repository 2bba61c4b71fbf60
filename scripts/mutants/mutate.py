"""Lists mutants of lines of Python, as JSON. The input has the numbers of the lines by their files' names, as
JSON, too.

A mutant is what scripts/mutants/golang.go says. Only the bodies of functions have some: all that imports a
module runs what is outside of them."""

import ast
import json
import sys
from pathlib import Path

# What is written by mistake for a comparison, and for an operator.
COMPARED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}
JUMPS = (ast.Return, ast.Continue, ast.Break, ast.Raise)


class Drawing(ast.NodeVisitor):
    """Collects the mutants of a file."""

    def __init__(self, name, source):
        self.name, self.source, self.mutants, self.statement = name, source, [], None
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.visit(ast.parse(source))

    def start(self, node):
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node):
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node):
        return self.source[self.start(node) : self.end(node)].decode()

    def put(self, kind, node, text, until=None):
        if self.statement is not None:
            bytes_ = {"Start": self.start(node), "End": self.end(until or node), "New": text}
            self.mutants.append(
                {"File": self.name, "Line": node.lineno, "Kind": kind, **bytes_, **self.place()}
            )

    def place(self):
        """Where the statement begins, and what separates it from another one that is put before it."""
        compound = hasattr(self.statement, "body") or isinstance(self.statement, ast.Match)
        return {
            "Statement": self.start(self.statement),
            "Separator": "\n" + " " * self.statement.col_offset if compound else "; ",
        }

    def visit_FunctionDef(self, node):
        outside = self.statement
        for number, statement in enumerate(node.body):
            if number or not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                self.inside(statement)
        self.statement = outside

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        outside, self.statement = self.statement, None
        self.generic_visit(node)
        self.statement = outside

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def visit_JoinedStr(self, node):
        """Its parts have no places of their own before Python 3.12."""

    def visit_Lambda(self, node):
        self.visit(node.body)

    def inside(self, statement):
        """Visits a statement of a function. Another one can be put before it, or before the whole of which it
        is an elif."""
        if not self.source.startswith(b"elif", self.start(statement)):
            self.statement = statement
        if isinstance(statement, (ast.Assign, ast.AugAssign)):
            self.put("assignment removed", statement, "pass")
        elif isinstance(statement, (ast.Expr, ast.Continue, ast.Break, ast.Raise)):
            self.put("statement removed", statement, "pass")
        elif isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], JUMPS):
            self.put("early return removed", statement, "pass")
        self.visit(statement)

    def generic_visit(self, node):
        for _, value in ast.iter_fields(node):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.stmt) and self.statement is not None:
                    above = self.statement
                    self.inside(part)
                    self.statement = above
                elif isinstance(part, ast.AST):
                    self.visit(part)

    def negate(self, condition):
        self.put("condition negated", condition, f"(not ({self.text(condition)}))")

    def visit_If(self, node):
        self.negate(node.test)
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If

    def visit_comprehension(self, node):
        for condition in node.ifs:
            self.put("condition dropped", condition, "True")
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        for dropped in node.values:
            word = " and " if isinstance(node.op, ast.And) else " or "
            rest = word.join(f"({self.text(value)})" for value in node.values if value is not dropped)
            self.put("condition dropped", node, f"({rest})")
        self.generic_visit(node)

    def visit_Compare(self, node):
        if len(node.ops) == 1:
            other = COMPARED[type(node.ops[0])]
            self.put(
                "operator", node, f"(({self.text(node.left)}) {other} ({self.text(node.comparators[0])}))"
            )
        self.generic_visit(node)

    def visit_BinOp(self, node):
        if type(node.op) in OPERATORS:
            self.put(
                "operator",
                node,
                f"(({self.text(node.left)}) {OPERATORS[type(node.op)]} ({self.text(node.right)}))",
            )
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self.put("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            for other in {node.value + 1, abs(node.value - 1)}:
                self.put("constant", node, str(other))

    def visit_Subscript(self, node):
        if isinstance(node.slice, ast.Slice):
            for bound, by in (node.slice.lower, "+ 1"), (node.slice.upper, "- 1"):
                if bound:
                    self.put("bound", bound, f"({self.text(bound)}) {by}")
        self.generic_visit(node)

    def visit_Call(self, node):
        plain = [a for a in node.args if not isinstance(a, ast.Starred)]
        for a, b in zip(plain, plain[1:]):
            between = self.source[self.end(a) : self.start(b)].decode()
            if self.text(a) != self.text(b) and "(" not in between and ")" not in between:
                self.put("arguments swapped", a, self.text(b) + between + self.text(a), until=b)
        self.generic_visit(node)

    def visit_Return(self, node):
        if node.value is not None and self.text(node.value) != "None":
            self.put("another value returned", node.value, "None")
            self.put("another value returned", node.value, f"(not ({self.text(node.value)}))")
        self.generic_visit(node)


def compiles(source, mutant):
    text = source[: mutant["Start"]] + mutant["New"].encode() + source[mutant["End"] :]
    try:
        compile(text, mutant["File"], "exec")
    except SyntaxError:
        return False
    return True


def mutants(name, lines):
    source = Path(name).read_bytes()
    return [m for m in Drawing(name, source).mutants if m["Line"] in lines and compiles(source, m)]


if __name__ == "__main__":
    json.dump(
        [m for name, lines in json.load(sys.stdin).items() for m in mutants(name, set(lines))], sys.stdout
    )
