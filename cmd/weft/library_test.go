package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// Two examples work in a module elsewhere that depends on weft as docs/install.md says: they build without a
// network, run, and leave a run that the command predicts with.
func TestLibraryFromElsewhere(t *testing.T) {
	if build, _ := debug.ReadBuildInfo(); slices.Contains(build.Settings,
		debug.BuildSetting{Key: "-trimpath", Value: "true"}) {
		t.Skip("with -trimpath the kernels are compiled anew for another module, which takes minutes")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return string(text)
	}
	for _, b := range snippets(t, "docs/install.md") {
		if b.lang == "go.mod" {
			write("go.mod", strings.Replace(b.text, "=> ../weft", "=> "+root, 1))
		}
	}
	write("go.sum", read("go.sum"))
	write("main.go", read("examples/record/main.go"))
	write("convolution/main.go", read("examples/convolution/main.go"))
	run := func(want, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOWORK=off")
		if output, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(output), want) {
			t.Fatalf("%s %s: %v: %s; want %q", name, strings.Join(args, " "), err, output, want)
		}
	}
	run("3000 × 4 logits", "go", "run", ".")
	run("test accuracy", "go", "run", "./convolution")
	run("", "weft", "generate", "sbm", "store", "--vertices", "3000", "--features", "16", "--classes", "4")
	run("3,000 vertices, 4 classes", "weft", "predict", "runs/mine", "store", "--out", "logits.npy")
	run("run.json names no store", "sh", "-c", "! weft predict runs/mine --out logits.npy")
}

// The programs of docs/go.md print what stands below them. They and the examples import those packages of
// weft alone that the page names, and these are there.
func TestGoPage(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), output)
		return string(output)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "go.md"))
	require.NoError(t, err)
	module := strings.TrimSpace(run(root, "go", "list", "-m")) + "/[a-z/]+"
	var public []string
	table := regexp.MustCompile("(?m)^\\| `(" + module + ")` \\|")
	for _, row := range table.FindAllStringSubmatch(string(page), -1) {
		public = append(public, row[1])
	}
	run(root, "go", append([]string{"list"}, public...)...)
	imported := regexp.MustCompile(`"(` + module + `)"`)
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	sources, err := filepath.Glob(filepath.Join(root, "examples", "*", "main.go"))
	require.NoError(t, err)
	results, programs := "", 0
	check := func(at, text string) {
		for _, name := range imported.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(public, name[1]) {
				t.Errorf("%s imports %s, which docs/go.md does not name", at, name[1])
			}
		}
	}
	for _, b := range snippets(t, "docs/go.md") {
		if b.lang == "" {
			assert.Equal(t, results, b.text, b.at)
			continue
		}
		check(b.at, b.text)
		require.NoError(t, os.WriteFile(source, []byte(b.text), 0o666))
		assert.Equal(t, "", run(root, "gofmt", "-l", source), "%s: not formatted", b.at)
		run(root, "go", "build", "-o", program, source)
		results = run(dir, program)
		programs++
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		check(path, string(text))
	}
	assert.Equal(t, []int{3, 3}, []int{programs, len(sources)}, "programs, and examples")
}

// scripts/module-path gives the module a path that `go get` fetches: every package is found below it, files
// stay formatted, and no file has the old path.
func TestModulePath(t *testing.T) {
	const path = "git.example.org/team/weft"
	dir := t.TempDir()
	copySources(t, dir)
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOWORK=off")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), output)
		return string(output)
	}
	run("scripts/module-path", path)
	packages := run("go", "list", "-f", "{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}", "./...")
	if !strings.Contains(packages, path+"/cmd/weft ") || regexp.MustCompile(`(?m)(^|[ [])weft/`).MatchString(
		strings.ReplaceAll(packages, path+"/", "")) {
		t.Errorf("packages: %s", packages)
	}
	assert.Equal(t, "", run("gofmt", "-l", "."), "not formatted")
	snippet := "require " + path + " v0.0.0\n\nreplace " + path + " => ../weft\n"
	assert.Contains(t, run("cat", "docs/install.md"), snippet, "docs/install.md lacks")
	assert.Contains(t, run("cat", ".golangci.yml"), "module-path: "+path+"\n", ".golangci.yml")
	assert.Equal(t, path+"/internal/tools\n", run("go", "-C", "internal/tools", "list", "-m"),
		"internal/tools is module")
	assert.Contains(t, run("cat", "docs/go.md"), "| `"+path+"/train` |", "docs/go.md")
	run("sh", "-c", "! scripts/module-path weft2 && ! scripts/module-path && ! scripts/module-path "+
		"'git.example.org/a b'")
}

// copySources copies the sources of weft into a folder: not what git ignores or has.
func copySources(t *testing.T, to string) {
	t.Helper()
	from := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if slices.Contains([]string{".git", "bin", "runs", "stores"}, path) {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, path), 0o777)
		case !d.Type().IsRegular(): // of a worktree .git is a file
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), text, info.Mode().Perm())
	})
	require.NoError(t, err)
}
