package partition

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

func TestFileRoundTrip(t *testing.T) {
	g := made(t, 30, 60, kinds["bare"], 8)
	a, err := Assign(context.Background(), g, Options{K: 4, Method: Random})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "graph.part.4")
	require.NoError(t, WriteFile(path, a))
	read, err := Assign(context.Background(), g, Options{K: 4, Method: File, File: path})
	require.NoError(t, err)
	assert.Equal(t, read.Of, a.Of, "wrote")
	checkShares(t, g, read)
}

func TestReadParts(t *testing.T) {
	for text, want := range map[string]string{
		"0\n1\n2\n":                        "",
		"0\n1\n2":                          "",
		" 0 \r\n1\r\n2\r\n":                "",
		"":                                 "ends after line 0, but the graph has 3 vertices",
		"0\n1\n":                           "ends after line 2, but the graph has 3 vertices",
		"0\n1\n2\n0\n":                     "line 4 follows those of the 3 vertices",
		"0\n\n2\n":                         `line 2: "" is no number`,
		"0\n1 2\n2\n":                      `line 2: "1 2" is no number`,
		"0\nx\n2\n":                        `line 2: "x" is no number`,
		"0\n1.0\n2\n":                      `line 2: "1.0" is no number`,
		"0\n1\n3\n":                        "line 3: partition 3 is not one of the 3 from 0",
		"0\n-1\n2\n":                       "line 2: partition -1 is not one of the 3",
		"0\n99999999999999999999\n":        "line 2:",
		"0\n" + strings.Repeat("1", 1<<17): "line 2 is too long",
	} {
		of, err := readParts(strings.NewReader(text), 3, 3)
		if want == "" {
			require.NoError(t, err, "%q", text)
			assert.Equal(t, []int32{0, 1, 2}, of, "%q", text)
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v; want %q", text, err, want)
		}
	}
}

func TestFileRefusals(t *testing.T) {
	g := made(t, 3, 4, kinds["bare"], 8)
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("0\n7\n0\n"), 0o666))
	for path, want := range map[string]string{
		bad: bad + ": line 2", bad + "2": "no such file",
		t.TempDir(): "is a directory",
	} {
		_, err := Assign(context.Background(), g, Options{K: 2, Method: File, File: path})
		assert.Refused(t, err, want)
	}
}
