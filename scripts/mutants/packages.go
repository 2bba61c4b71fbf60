package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A pkg is a package of the module, as go list describes it.
type pkg struct {
	ImportPath, Name, Dir, Export      string
	GoFiles, CgoFiles                  []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
	Deps                               []string
	Standard                           bool
}

func (p *pkg) tests() []string { return slices.Concat(p.TestGoFiles, p.XTestGoFiles) }

// size is that of the files of tests, in bytes.
func (p *pkg) size() (bytes int64) {
	for _, name := range p.tests() {
		if info, err := os.Stat(filepath.Join(p.Dir, name)); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

func (p *pkg) imports(path string) bool {
	return slices.Contains(slices.Concat(p.Imports, p.TestImports, p.XTestImports), path)
}

// Packages are those of a module: of a command, whose mutants are drawn, and others, which may test them.
type packages struct {
	root    string
	command string          // its import path
	all     map[string]*pkg // by import path
	ofFile  map[string]*pkg // those of the command, by their files' names relative to root
	parsed  *token.FileSet
	files   map[string]*ast.File // by path
	imports types.Importer
}

// listPackages reads the packages of the module in a folder. The command is relative to that.
func listPackages(ctx context.Context, root, command string) (*packages, error) {
	p := &packages{
		root: root, all: map[string]*pkg{}, ofFile: map[string]*pkg{},
		parsed: token.NewFileSet(), files: map[string]*ast.File{},
	}
	exports := map[string]string{}
	// Those of the command are compiled, so that the types of what they import are known.
	within, err := p.list(ctx, "-export", "-deps", command)
	if err != nil {
		return nil, err
	}
	for _, dep := range within {
		exports[dep.ImportPath] = dep.Export
		for _, name := range slices.Concat(dep.GoFiles, dep.CgoFiles) {
			relative, err := filepath.Rel(root, filepath.Join(dep.Dir, name))
			if err == nil && !dep.Standard {
				p.ofFile[relative] = dep
			}
		}
	}
	p.command = within[len(within)-1].ImportPath
	all, err := p.list(ctx, "./...")
	if err != nil {
		return nil, err
	}
	for _, member := range all {
		p.all[member.ImportPath] = member
	}
	p.imports = importer.ForCompiler(p.parsed, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return p, nil
}

func (p *packages) list(ctx context.Context, args ...string) (listed []*pkg, err error) {
	command := inGroup(ctx, p.root, nil, "go", append([]string{"list", "-json"}, args...)...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	decoder := json.NewDecoder(out)
	for {
		entry := new(pkg)
		if err = decoder.Decode(entry); err != nil {
			break
		}
		listed = append(listed, entry)
	}
	if !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("go list: %w", err), command.Wait())
	}
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return listed, nil
}

// compiles returns whether the package of a mutant has no error of types, with its text in the file's place.
func (p *packages) compiles(m mutant, text []byte) bool {
	mutated := p.ofFile[m.File]
	var files []*ast.File
	for _, name := range slices.Concat(mutated.GoFiles, mutated.CgoFiles) {
		path := filepath.Join(mutated.Dir, name)
		if path == filepath.Join(p.root, m.File) {
			file, err := parser.ParseFile(p.parsed, path, text, parser.SkipObjectResolution)
			if err != nil {
				return false
			}
			files = append(files, file)
			continue
		}
		if p.files[path] == nil {
			file, err := parser.ParseFile(p.parsed, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return false
			}
			p.files[path] = file
		}
		files = append(files, p.files[path])
	}
	config := types.Config{Importer: p.imports, FakeImportC: true}
	_, err := config.Check(mutated.ImportPath, p.parsed, files, nil)
	return err == nil
}

// testers returns the packages whose tests may notice a mutant of a file: its own, those that import it, the
// ones with the most text of tests last, and the command, if it has that package.
func (p *packages) testers(file string) []*pkg {
	own := p.ofFile[file].ImportPath
	var importers []*pkg
	for _, imp := range p.all {
		if imp.imports(own) && len(imp.tests()) > 0 && imp.ImportPath != own && imp.ImportPath != p.command {
			importers = append(importers, imp)
		}
	}
	slices.SortFunc(importers, func(a, b *pkg) int {
		return cmp.Or(cmp.Compare(a.size(), b.size()), strings.Compare(a.ImportPath, b.ImportPath))
	})
	testers := slices.Concat([]*pkg{p.all[own]}, importers, []*pkg{p.all[p.command]})
	return slices.Compact(slices.DeleteFunc(testers, func(q *pkg) bool { return len(q.tests()) == 0 }))
}
