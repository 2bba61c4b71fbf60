package partition

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestTooManyFiles: where this process may open no more files, nothing is wrong with the partitions, and
// nobody is told to remove them or to make them again.
func TestTooManyFiles(t *testing.T) {
	store, g := stored(t,
		&graph.Graph{
			Relations: []graph.Relation{{Indptr: []int64{0, 1, 2, 3, 4}, Sources: []int32{1, 2, 3, 0}}},
		})
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
	said := map[string]error{}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	for name, open := range opens {
		said[name] = open()
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	for name, err := range said {
		if !errors.Is(err, unix.EMFILE) || refusal.Is(err) || strings.Contains(err.Error(), "again") ||
			strings.Contains(err.Error(), "remove") {
			t.Errorf("%s: %v", name, err)
		}
		assert.NoError(t, opens[name](), "%s, after it", name)
	}
}
