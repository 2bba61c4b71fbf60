package partition

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// Partitions that several processes write, or that a process leaves half written.

// writer is set in a process that TestTwoProcesses starts. It partitions the store over and over, by two
// seeds alternately: partitions that were replaced come back.
const writer = "WEFT_TEST_WRITER"

func TestMain(m *testing.M) {
	if store := os.Getenv(writer); store != "" {
		if err := writeOften(store); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func writeOften(store string) error {
	g, err := graph.Open(store)
	if err != nil {
		return err
	}
	defer g.Close()
	for i := range 10 {
		a, err := Assign(context.Background(), g, Options{K: 2, Method: Random, Seed: uint64(i % 2)})
		if err != nil {
			return err
		}
		if _, err := Write(store, g, a, nil); err != nil {
			return err
		}
	}
	return nil
}

// Several processes may write the same partitions while others read them: readers always find complete ones.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	write(t, store, g, divided(t, g, Options{K: 2, Method: Random}))
	var wait sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wait.Go(func() {
			child := exec.Command("/proc/self/exe")
			child.Env = append(os.Environ(), writer+"="+store)
			output, err := child.CombinedOutput()
			assert.NoError(t, err, "%s", output)
		})
	}
	go func() {
		wait.Wait()
		close(done)
	}()
	defer wait.Wait()
	opened := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		d := find(t, store, 2, "")
		s, err := Open(store, d, 1)
		if err != nil {
			if !strings.Contains(err.Error(), "replaced while") {
				t.Fatal(err)
			}
			continue
		}
		opened++
		require.NoError(t, s.Close())
	}
	entries, err := os.ReadDir(filepath.Join(store, "partitions"))
	if err != nil || len(entries) != 1 || opened == 0 {
		t.Errorf("%d shares were opened; left %v, error %v", opened, entries, err)
	}
}

// A write that ends early leaves the old partitions, or none.
func TestInterruptedWrite(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	interrupt := func() {
		folder, err := graph.CreateFolder(store, "partitions/range-2")
		require.NoError(t, err)
		_, err = writeShares(folder, g, divided(t, g, Options{K: 2, Method: Range}), nil)
		require.NoError(t, err)
		if all, err := List(store); err != nil || len(all) > 1 {
			t.Errorf("while it is written: %v, error %v", all, err)
		}
		assert.NoError(t, folder.Abort())
	}
	interrupt()
	_, err := os.Stat(filepath.Join(store, "partitions"))
	assert.ErrorIs(t, err, os.ErrNotExist, "something was left")
	write(t, store, g, divided(t, g, Options{K: 2, Method: Range}))
	before := find(t, store, 2, "")
	interrupt()
	if after := find(t, store, 2, ""); after.ID != before.ID || !after.Written.Equal(before.Written) {
		t.Errorf("before %v, after %v", before, after)
	}
}
