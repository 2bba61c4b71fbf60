package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
)

// A mutant is a file with one mistake of a kind that people make: some bytes have others in their place.
type mutant struct {
	File       string // relative to the repository
	Line       int    // in which these bytes begin
	Start, End int    // of the bytes
	New        string // in their place
	Kind       string // of the mistake
	// Statement is the byte where the statement begins that has the mistake, or -1 outside of functions.
	// Separator stands between that statement and another one before it.
	Statement int
	Separator string
}

// in returns the mutant of a file's text.
func (m mutant) in(source []byte) []byte {
	return append(append(append([]byte{}, source[:m.Start]...), m.New...), source[m.End:]...)
}

// goMutants returns the mutants of a file of Go, of which some do not compile; none of a generated file.
func goMutants(name string, source []byte) ([]mutant, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	d := &drawing{file: files.File(file.Pos()), source: source}
	ast.Inspect(file, d.visit)
	for i := range d.mutants {
		m := &d.mutants[i]
		m.Statement, m.Separator = -1, "; "
		for _, s := range d.statements { // the outer ones come first
			if s[0] <= m.Start && m.End <= s[1] {
				m.Statement = s[0]
			}
		}
	}
	return d.mutants, nil
}

// A drawing collects the mutants of a file.
type drawing struct {
	file    *token.File
	source  []byte
	mutants []mutant
	// statements are where those of lists begin and end.
	statements [][2]int
}

func (d *drawing) text(n ast.Node) string {
	return string(d.source[d.file.Offset(n.Pos()):d.file.Offset(n.End())])
}

// put has a mutant with a text in place of a node's.
func (d *drawing) put(kind string, n ast.Node, text string) { d.between(kind, n.Pos(), n.End(), text) }

func (d *drawing) between(kind string, from, to token.Pos, text string) {
	d.mutants = append(d.mutants, mutant{
		File: d.file.Name(), Line: d.file.Line(from),
		Start: d.file.Offset(from), End: d.file.Offset(to), New: text, Kind: kind,
	})
}

func (d *drawing) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.BlockStmt:
		d.remove(n.List)
	case *ast.CaseClause:
		d.remove(n.Body)
	case *ast.CommClause:
		d.remove(n.Body)
	case *ast.IfStmt:
		d.negate(n.Cond)
	case *ast.ForStmt:
		d.negate(n.Cond)
	case *ast.BinaryExpr:
		d.operator(n)
	case *ast.BasicLit:
		d.constant(n)
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
			d.put("constant", n, other)
		}
	case *ast.IndexExpr:
		d.off("index", n.Index, "+ 1")
	case *ast.SliceExpr:
		d.off("bound", n.Low, "+ 1")
		d.off("bound", n.High, "- 1")
	case *ast.CallExpr:
		return d.call(n)
	case *ast.ReturnStmt:
		for _, result := range n.Results {
			for _, other := range []string{"!(%s)", "(%s) + 1", `""`, "nil"} {
				if other[0] == '!' || other[0] == '(' {
					other = fmt.Sprintf(other, d.text(result))
				}
				if other != d.text(result) {
					d.put("another value returned", result, other)
				}
			}
		}
	case *ast.BranchStmt:
		if n.Label == nil {
			jumps := map[token.Token]string{token.BREAK: "continue", token.CONTINUE: "break"}
			if other, ok := jumps[n.Tok]; ok {
				d.put("break or continue", n, other)
			}
		}
	}
	return true
}

// remove leaves out each statement of a list that has an effect, and each early return.
func (d *drawing) remove(list []ast.Stmt) {
	for _, s := range list {
		switch s.(type) {
		case *ast.CaseClause, *ast.CommClause: // of a switch, before which nothing may stand
			continue
		}
		d.statements = append(d.statements, [2]int{d.file.Offset(s.Pos()), d.file.Offset(s.End())})
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				d.put("assignment removed", s, "")
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.BranchStmt:
			d.put("statement removed", s, "")
		case *ast.IfStmt:
			if s.Else != nil || len(s.Body.List) == 0 {
				continue
			}
			switch s.Body.List[len(s.Body.List)-1].(type) {
			case *ast.ReturnStmt, *ast.BranchStmt:
				d.put("early return removed", s, "")
			}
		}
	}
}

func (d *drawing) negate(condition ast.Expr) {
	if condition != nil {
		d.put("condition negated", condition, "!("+d.text(condition)+")")
	}
}

// others are the operators that are mistaken for each.
var others = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
}

func (d *drawing) operator(n *ast.BinaryExpr) {
	if n.Op == token.LAND || n.Op == token.LOR {
		d.put("condition dropped", n, "("+d.text(n.X)+")")
		d.put("condition dropped", n, "("+d.text(n.Y)+")")
	} else if other, ok := others[n.Op]; ok {
		d.between("operator", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other)
	}
}

func (d *drawing) constant(n *ast.BasicLit) {
	value, ok := new(big.Int).SetString(n.Value, 0)
	if n.Kind != token.INT || !ok {
		return
	}
	d.put("constant", n, new(big.Int).Add(value, big.NewInt(1)).String())
	if value.Sign() > 0 {
		d.put("constant", n, new(big.Int).Sub(value, big.NewInt(1)).String())
	}
}

func (d *drawing) off(kind string, n ast.Expr, by string) {
	if n != nil {
		d.put(kind, n, "("+d.text(n)+") "+by)
	}
}

// call returns whether to look into a call's arguments: a capacity changes nothing.
func (d *drawing) call(n *ast.CallExpr) bool {
	if name, ok := n.Fun.(*ast.Ident); ok {
		if other, ok := map[string]string{"min": "max", "max": "min"}[name.Name]; ok {
			d.put("operator", name, other)
			return true // in any order
		}
		if name.Name == "make" && len(n.Args) == 3 {
			ast.Inspect(n.Args[1], d.visit)
			return false
		}
	}
	for i := 1; i < len(n.Args); i++ {
		a, b := n.Args[i-1], n.Args[i]
		if d.text(a) != d.text(b) {
			between := string(d.source[d.file.Offset(a.End()):d.file.Offset(b.Pos())])
			d.between("arguments swapped", a.Pos(), b.End(), d.text(b)+between+d.text(a))
		}
	}
	return true
}
