package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weft/cmd/weft/internal/cli"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestLiveWithFewFiles: where a process may open few files, and others connect to its page as often as they
// can, the run ends with its checkpoint and its weights.
func TestLiveWithFewFiles(t *testing.T) {
	dir := t.TempDir()
	store, run := filepath.Join(dir, "g"), filepath.Join(dir, "run")
	require.NoError(t,
		generate.Write(store, generate.Options{
			Kind: generate.SBM, Vertices: 60, Degree: 3, Features: 4, Classes: 2,
		}))
	c := exec.Command("sh", "-c", `ulimit -n 28; exec "$0" "$@"`, "weft", "train", store, "--watch", "0",
		"--epochs", "1000000000", "--threads", "1", "--out", run)
	out, err := c.StdoutPipe()
	if err == nil {
		c.Stderr = c.Stdout
		err = c.Start()
	}
	require.NoError(t, err)
	var output strings.Builder
	lines := bufio.NewScanner(io.TeeReader(out, &output))
	var conns []net.Conn
	for lines.Scan() {
		if _, url, found := strings.Cut(lines.Text(), ": live at http://"); found {
			for range 100 {
				conn, err := net.Dial("tcp", strings.TrimSuffix(url, "/"))
				require.NoError(t, err)
				defer conn.Close()
				fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
				conns = append(conns, conn)
			}
			if _, err := conns[0].Read(make([]byte, 1)); err != nil { // the page answers
				t.Error(err)
			}
			assert.NoError(t, c.Process.Signal(os.Interrupt))
		}
	}
	err = c.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted || len(conns) != 100 {
		t.Fatalf("%v, %d connections:\n%s", err, len(conns), output.String())
	}
	weights, _ := filepath.Glob(filepath.Join(run, "model.safetensors"))
	checkpoints, _ := filepath.Glob(filepath.Join(run, "checkpoints", "epoch-*", "manifest.json"))
	if len(weights) != 1 || len(checkpoints) == 0 {
		t.Errorf("weights %v, checkpoints %v:\n%s", weights, checkpoints, output.String())
	}
}
