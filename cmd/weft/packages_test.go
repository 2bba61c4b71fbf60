package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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

// floors are the packages in their order: each imports only those before it. A package that is not here
// belongs to the one around it.
var floors = []string{
	"tensor", "tensor/offload", "kernel/native", "device", "kernel", "kernel/reference", "kernel/machine",
	"graph/columns", "graph", "graph/appended", "graph/tables", "graph/planetoid", "graph/generate",
	"comm", "comm/launch", "comm/mpi", "comm/commtest", "partition", "graph/datasets",
	"autograd", "checkpoint", "nn", "optim", "gnn", "program",
	"parallel/mesh", "parallel/edges", "parallel/exchange", "parallel/order", "parallel/axis", "parallel/sar",
	"parallel/turns", "parallel/mfg", "parallel/tp", "parallel/chunked", "parallel/links",
	"train/metric", "train/calibrate",
	"train/task", "configs", "train/setting", "train/engine", "train/paralleltest", "train/worker",
	"train/plan",
	"train", "train/planner", "train/bench", "train/rundir", "train/sweep", "train/predictions", "serve",
	"cmd/weft/internal/ui", "cmd/weft/internal/cli", "cmd/weft/internal/data",
	"cmd/weft/internal/session", "cmd/weft/internal/planning", "cmd/weft/internal/reports",
	"cmd/weft/internal/inference", "cmd/weft/internal/training", "cmd/weft/internal/calls", "cmd/weft",
	"internal", "scripts", "examples",
}

// TestPackages: a package imports only packages before it, and says what it is in a comment. The packages
// of internal/* import nothing but each other. The command alone imports comm/mpi.
func TestPackages(t *testing.T) {
	floor := func(pkg string) int {
		for ; pkg != "."; pkg = filepath.Dir(pkg) {
			if k := slices.Index(floors, pkg); k >= 0 {
				return k
			}
		}
		return -1
	}
	commented := map[string]bool{}
	eachSource(t, func(pkg, path string, f *ast.File) {
		if floor(pkg) < 0 {
			t.Errorf("%s: no floor has package %s", path, pkg)
		}
		commented[pkg] = commented[pkg] || f.Doc != nil
		for _, i := range f.Imports {
			other, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "weft/")
			if !ours || strings.HasPrefix(other, "internal/") {
				continue
			}
			if other == "comm/mpi" && !strings.HasPrefix(pkg, "cmd/weft") {
				t.Errorf("%s imports comm/mpi: it is for the command: others take a comm.Transport", path)
			}
			if strings.HasPrefix(pkg, "internal/") {
				t.Errorf("%s imports %s: internal/* is imported by all, and imports nothing but itself", path, other)
			} else if floor(other) > floor(pkg) {
				t.Errorf("%s imports %s, which stands below it", path, other)
			}
		}
	})
	for pkg, has := range commented {
		assert.Equal(t, true, has, "package %s has a comment", pkg)
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
