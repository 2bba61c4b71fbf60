package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/require"
)

// particles are words that name nothing: a reader of code asks what the thing is.
var particles = []string{
	"of", "given", "mine", "through", "those", "bring", "speaks", "says", "said", "news", "it", "them",
}

// TestNames: no identifier of Go is a particle. Fields of JSON and of yaml have tags of their own.
func TestNames(t *testing.T) {
	root := filepath.Join("..", "..")
	names := 0
	for _, path := range checkedOut(t, "*.go") {
		places := token.NewFileSet()
		file, err := parser.ParseFile(places, filepath.Join(root, path), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ofC := map[*ast.Ident]bool{} // fields of structs of C
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(path, "kernel/") {
				ofC[s.Sel] = true
			}
			if pair, ok := n.(*ast.KeyValueExpr); ok && strings.HasPrefix(path, "kernel/") {
				if key, ok := pair.Key.(*ast.Ident); ok {
					ofC[key] = true
				}
			}
			if name, ok := n.(*ast.Ident); ok {
				names++
				if slices.Contains(particles, name.Name) && !ofC[name] {
					t.Errorf("%s: %s is the name of a thing", places.Position(name.Pos()), name.Name)
				}
			}
			return true
		})
	}
	if names < 100_000 {
		t.Errorf("%d names", names)
	}
}
