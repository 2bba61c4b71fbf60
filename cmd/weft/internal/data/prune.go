package data

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/cache"
	"weft/internal/datasets"
	"weft/internal/refusal"
	"weft/train/rundir"
)

// used reports whether a run that is there needs the store.
func used(store string) bool { return len(runsOf(store)) > 0 }

// runsOf are the runs that were trained or validated on a store of sources, of those that are where they were
// then. A run whose state cannot be read may continue from a checkpoint, and counts.
func runsOf(store string) (runs []string) {
	for _, run := range datasets.NotedRuns(store) {
		state, err := rundir.ReadState(run)
		if err != nil && (rundir.Is(run) || rundir.Begun(run)) || err == nil && uses(&state, store) {
			runs = append(runs, run)
		}
	}
	return runs
}

// uses reports whether a run that a store notes is still of it, and not of another in the same folder. A run
// may name the file that it is validated on, which does not tell the store that was made of it.
func uses(state *rundir.State, store string) bool {
	return cli.SameFile(state.Store, store) || state.Settings["validate"] != ""
}

// prunedStores are the stores whose sources have changed since they were made: the JSON object of `weft
// datasets --prune --json`.
type prunedStores struct {
	Stores []prunedStore `json:"stores"`
}

// prunedStore is one of them. It is removed unless it has runs.
type prunedStore struct {
	Store   string   `json:"store"`
	Bytes   int64    `json:"bytes"`
	Runs    []string `json:"runs,omitempty"` // that need it
	Removed bool     `json:"removed"`
}

// prune removes the stores in the cache and in folders that weft made of files which have changed since, but
// those that a run needs.
func prune(folders []string) (*prunedStores, error) {
	if root := cache.Root(); root != "" {
		folders = append(slices.Clone(folders), within(root, "stores-*")...)
		folders = append(folders, within(root, "imports/*")...)
	}
	found := &prunedStores{Stores: []prunedStore{}} // not null in JSON
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, refusal.Errorf("%w; name folders with files that weft has imported", err)
		}
		for _, e := range entries {
			store := filepath.Join(folder, e.Name())
			if !e.IsDir() || !cli.IsStore(store) || len(datasets.Outdated(store)) == 0 {
				continue
			}
			one := prunedStore{Store: store, Bytes: bytesIn(store), Runs: runsOf(store)}
			if len(one.Runs) == 0 && datasets.CheckOwn(store) == nil {
				if err := os.RemoveAll(store); err != nil {
					return nil, err
				}
				one.Removed = true
			}
			found.Stores = append(found.Stores, one)
		}
	}
	return found, nil
}

// bytesIn is the number of bytes of the files in a folder, as far as they can be read.
func bytesIn(folder string) (bytes int64) {
	_ = filepath.WalkDir(folder, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // whoever removes it says so
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// Print lists them for the eye.
func (p *prunedStores) Print(out io.Writer) {
	if len(p.Stores) == 0 {
		fmt.Fprintln(out, "no store is of files that have changed since")
		return
	}
	t := ui.NewTable(out)
	t.Row("STORE", "SIZE", "")
	for _, s := range p.Stores {
		what := "removed"
		switch {
		case len(s.Runs) > 0:
			what = "stays, as runs need it: " + refusal.List(s.Runs, 3)
		case !s.Removed:
			what = "stays, as not all in it is a store's"
		}
		t.Row(s.Store, ui.Megabytes(s.Bytes), what)
	}
	t.Flush()
}
