package partition

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/fulldisk"
	"weft/internal/refusal"
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
	assert.Equal(t, read.Parts, a.Parts, "wrote")
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
		parts, err := readParts(strings.NewReader(text), 3, 3)
		if want == "" {
			require.NoError(t, err, "%q", text)
			assert.Equal(t, []int32{0, 1, 2}, parts, "%q", text)
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

// TestTooManyFiles: where this process may open no more files, nothing is wrong with the partitions, and
// nobody is told to remove them or to make them again.
func TestTooManyFiles(t *testing.T) {
	store, g := stored(t,
		graph.Of(graph.Relation{Indptr: []int64{0, 1, 2, 3, 4}, Sources: []int32{1, 2, 3, 0}}))
	write(t, store, g, divided(t, g, Options{K: 2, Method: "range"}))
	d := find(t, store, 2, "")
	opens := map[string]func() error{
		"finding them":   func() error { _, _, err := Find(store, 2, ""); return err },
		"their record":   func() error { _, err := readRecord(Directory(store, d.Name)); return err },
		"a share":        func() error { _, err := Open(store, d, 0); return err },
		"the assignment": func() error { _, err := d.readAssignment(store); return err },
		"a part": func() error {
			_, err := graph.OpenPart(Directory(store, d.Name) + "/0")
			return err
		},
		"the graph itself": func() error { _, err := graph.Open(store); return err },
	}
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	errs := map[string]error{}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	for name, open := range opens {
		errs[name] = open()
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	for name, err := range errs {
		if !errors.Is(err, unix.EMFILE) || refusal.Is(err) || strings.Contains(err.Error(), "again") ||
			strings.Contains(err.Error(), "remove") {
			t.Errorf("%s: %v", name, err)
		}
		assert.NoError(t, opens[name](), "%s, after it", name)
	}
}

func TestLastByteOfAFile(t *testing.T) {
	fulldisk.LastByte(t, func(dir string) error {
		return WriteFile(filepath.Join(dir, "a.part.2"), &Assignment{K: 2, Parts: []int32{0, 1, 1, 0}})
	})
}
