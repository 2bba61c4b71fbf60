package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Two examples work in a module elsewhere that depends on weft as README.md says: they build without a network,
// run, and leave a run that the command predicts with.
func TestLibraryFromElsewhere(t *testing.T) {
	if build, _ := debug.ReadBuildInfo(); slices.Contains(build.Settings, debug.BuildSetting{Key: "-trimpath", Value: "true"}) {
		t.Skip("with -trimpath the kernels are compiled anew for another module, which takes minutes")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, b := range snippets(t, "README.md") {
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
		if said, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(said), want) {
			t.Fatalf("%s %s: %v: %s; want %q", name, strings.Join(args, " "), err, said, want)
		}
	}
	run("3000 × 4 logits", "go", "run", ".")
	run("test accuracy", "go", "run", "./convolution")
	run("", "weft", "generate", "sbm", "store", "--vertices", "3000", "--features", "16", "--classes", "4")
	run("3,000 vertices, 4 classes", "weft", "predict", "runs/mine", "store", "--out", "logits.npy")
	run("run.json names no store", "sh", "-c", "! weft predict runs/mine --out logits.npy")
}
