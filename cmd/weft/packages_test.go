package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/internal/assert"
	"weft/internal/require"
)

// eachSource calls use for each file of the module but tests, with the path of its package.
func eachSource(t *testing.T, use func(pkg, path string, f *ast.File)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == "tools"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil,
			parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		use(filepath.ToSlash(filepath.Dir(path)), path, f)
		return err
	})
	require.NoError(t, err)
}

// floors are the packages in the order of the table of docs/architecture.md. A package that is not there
// belongs to the one around it.
func floors(t *testing.T) (packages []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(text), "\n| packages |")
	rows, _, ends := strings.Cut(rows, "\n\n")
	require.Equal(t, [2]bool{true, true}, [2]bool{found, ends}, "the document has the table")
	for row := range strings.Lines(rows) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			packages = append(packages, name[1])
		}
	}
	return packages
}

// TestPackages: a package imports only packages before it, and says what it is in a comment. The command
// alone imports comm/mpi. Each package of the table exists.
func TestPackages(t *testing.T) {
	order, commented := floors(t), map[string]bool{}
	floor := func(pkg string) (k int, listed string) {
		for ; pkg != "."; pkg = filepath.Dir(pkg) {
			if k := slices.Index(order, pkg); k >= 0 {
				return k, pkg
			}
		}
		return -1, ""
	}
	eachSource(t, func(pkg, path string, f *ast.File) {
		own, listed := floor(pkg)
		if own < 0 {
			t.Errorf("%s: docs/architecture.md has no package %s", path, pkg)
		}
		commented[pkg] = commented[pkg] || f.Doc != nil
		for _, i := range f.Imports {
			other, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "weft/")
			if !ours {
				continue
			}
			if other == "comm/mpi" && !strings.HasPrefix(pkg, "cmd/weft") {
				t.Errorf("%s imports comm/mpi: it is for the command: others take a comm.Transport", path)
			}
			switch k, _ := floor(other); {
			case k <= own:
			case listed == pkg:
				t.Errorf("%s imports %s, which stands below it", path, other)
			default:
				t.Errorf("%s imports %s, which stands below %s: give %s a place of its own in the table of "+
					"docs/architecture.md", path, other, listed, pkg)
			}
		}
	})
	for pkg, has := range commented {
		assert.Equal(t, true, has, "package %s has a comment", pkg)
	}
	for _, pkg := range order {
		entries, err := os.ReadDir(filepath.Join("..", "..", pkg))
		if err != nil || len(entries) == 0 {
			t.Errorf("docs/architecture.md lists %s, which is no package: %v", pkg, err)
		}
	}
}

// TestNativeIsALeaf: the packages of kernel/native take longest to compile. They import nothing that changes
// but its headers, and have no tests, with which they would be compiled once more.
func TestNativeIsALeaf(t *testing.T) {
	for _, pattern := range []string{"kernel/native/*.go", "kernel/native/*/*.go"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		isTest := func(path string) bool { return strings.HasSuffix(path, "_test.go") }
		if err != nil || len(files) == 0 || slices.ContainsFunc(files, isTest) {
			t.Fatalf("%s are %q (%v), want some and no tests", pattern, files, err)
		}
	}
	eachSource(t, func(pkg, path string, f *ast.File) {
		want := []string{`"C"`, `"embed"`}
		if level, ok := strings.CutPrefix(pkg, "kernel/native/"); ok {
			want = []string{`"C"`, `"weft/kernel/native"`}
			assert.Equal(t, level, f.Name.Name, "%s is of package", path)
		} else if pkg != "kernel/native" {
			return
		}
		for _, i := range f.Imports {
			if !slices.Contains(want, i.Path.Value) {
				t.Errorf("%s imports %s", path, i.Path.Value)
			}
		}
	})
}

// TestFlagsOfMessages: what a refusal names as --name is a flag of a command, and its format is what stands
// in the program: no text of a user or a file.
func TestFlagsOfMessages(t *testing.T) {
	flags := map[string]bool{"help": true, "mpi": true} // of all commands, and of srun
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		for _, c := range cmd.Commands() {
			add(c)
		}
	}
	root, _ := newRoot()
	add(root)
	flag, named := regexp.MustCompile(`(?:^|[^a-z0-9-])--([a-z][a-z0-9-]*)`), 0
	eachSource(t, func(_, path string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !makesRefusal(call.Fun) {
				return true
			}
			if !isFixed(call.Args[0]) {
				t.Errorf("%s, byte %d: the format of a refusal is no fixed text", path, call.Args[0].Pos())
			}
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok {
					for _, name := range flag.FindAllStringSubmatch(text.Value, -1) {
						named++
						assert.Equal(t, true, flags[name[1]], "%s: --%s is a flag", path, name[1])
					}
				}
				return true
			})
			return true
		})
	})
	if named < 100 {
		t.Errorf("%d flags are named, where there were hundreds", named)
	}
}

// makesRefusal reports whether a function takes the format of a refusal.
func makesRefusal(function ast.Expr) bool {
	return regexp.MustCompile(`^refusal\.((\w+\.)?Errorf|Damaged)$`).MatchString(qualified(function))
}

// qualified is a name as it is written, with what stands before its dots; empty for another expression.
// Package go/types knows this, too, but takes two seconds to compile.
func qualified(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return qualified(e.X) + "." + e.Sel.Name
	}
	return ""
}

// isFixed reports whether a format is of literals, of what a function takes as a format, and of names of
// settings.
func isFixed(format ast.Expr) bool {
	switch e := format.(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return isFixed(e.X) && isFixed(e.Y)
	case *ast.Ident:
		return e.Name == "format" || e.Name == "message"
	case *ast.SelectorExpr:
		return e.Sel.Name == "Name"
	}
	return false
}
