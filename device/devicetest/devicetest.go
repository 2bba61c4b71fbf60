// Package devicetest lets tests of any package use a device on a machine without one: it compiles a libcuda
// that runs kernels on the CPU.
package devicetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Library makes bin/libcuda-on-cpu.so, and sets WEFT_CUDA to it during a test, unless WEFT_CUDA is set. It
// skips the test on a machine that cannot compile the library.
func Library(t testing.TB) {
	t.Helper()
	if os.Getenv("WEFT_CUDA") != "" {
		return
	}
	Compiler(t)
	library, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEFT_CUDA", library)
}

// Compiler skips a test on a machine that cannot compile libcuda-on-cpu.so.
func Compiler(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("there is no g++, which compiles libcuda-on-cpu.so")
	}
}

// Build makes bin/libcuda-on-cpu.so, and returns its path. If several processes need it, one compiles it,
// which takes a minute of processor time, and the others wait.
var Build = sync.OnceValues(func() (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	root, library := string(module[:len(module)-1]), filepath.Join("bin", "libcuda-on-cpu.so")
	lock, err := os.Open(root)
	if err != nil {
		return "", err
	}
	defer lock.Close() // unlocks, too
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("%s: %w", root, err)
	}
	output, err := exec.Command("make", "--no-print-directory", "-C", root, library).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make %s: %w\n%s", library, err, output)
	}
	return filepath.Join(root, library), nil
})
