package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestServe: serve answers what predict writes, and a signal ends it with status 0.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	store, run, table := filepath.Join(dir, "g"), filepath.Join(dir, "run"), filepath.Join(dir, "preds.csv")
	require.NoError(t, generate.Write(store, generate.Options{
		Kind: generate.SBM, Vertices: 60, Degree: 3, Features: 4, Classes: 2,
	}))
	for _, args := range [][]string{
		{"train", store, "--epochs", "2", "--out", run},
		{"predict", run, "--out", table},
	} {
		out, err := exec.Command("weft", args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	written, err := os.ReadFile(table)
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSpace(string(written)), "\n")[1:]

	c := exec.Command("weft", "serve", run, "--port", "0", "--threads", "1")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	require.NoError(t, err)
	lines := bufio.NewScanner(out)
	require.Equal(t, true, lines.Scan())
	url, _, _ := strings.Cut(lines.Text(), " ")
	r, err := http.Post(url+"/predict", "application/json", strings.NewReader(`{"vertices": [59, 0, 17]}`))
	require.NoError(t, err)
	defer r.Body.Close()
	var answer struct {
		Predictions []struct {
			Vertex, Class int
			Probability   json.Number
		}
	}
	require.NoError(t, json.NewDecoder(r.Body).Decode(&answer))
	for i, v := range []int{59, 0, 17} {
		p := answer.Predictions[i]
		assert.Equal(t, rows[v], fmt.Sprintf("%d,%d,%s", p.Vertex, p.Class, p.Probability))
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	var rest bytes.Buffer
	for lines.Scan() {
		rest.WriteString(lines.Text())
	}
	assert.NoError(t, c.Wait())
	assert.Contains(t, rest.String(), "1 request answered in ")
}
