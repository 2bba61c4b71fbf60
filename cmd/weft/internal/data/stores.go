package data

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

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

// NewStores makes the command stores.
func NewStores() *cobra.Command {
	asJSON, remove := false, false
	cmd := &cobra.Command{
		Use:   "stores [FOLDER…]",
		Short: "list the stores that were made of files on the way, and remove those that no run names",
		Long: `stores lists the stores that weft has made of files that a command named, as FILE.weft: in the folders (default: the current one), and
in the user's cache or $WEFT_CACHE. It says which runs were trained or validated on each, and which of its files have changed since.

When a file has changed, the next command makes a new store. That takes the old one's place, or is FILE.2.weft where a run names the old
one. Each choice of flags of tables has a store of its own. With --remove those go that no run names. A command that names their files
makes them again. A store stays that cannot be made again, as its files are not there, and one that has more in it than weft wrote.`,
		Example: "  weft stores data\n  weft stores data --remove",
		Args:    cli.Arguments(0, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			found, err := storesIn(args, remove)
			if err != nil {
				return err
			}
			return ui.Show(cmd.OutOrStdout(), found, asJSON)
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the stores that no run names")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// madeStores are the stores that were made of files on the way: the JSON object of `weft stores --json`.
type madeStores struct {
	Stores []madeStore `json:"stores"`
}

// madeStore is one of them.
type madeStore struct {
	Store   string   `json:"store"`
	Bytes   int64    `json:"bytes"`
	Runs    []string `json:"runs,omitempty"`    // that name it
	Changed []string `json:"changed,omitempty"` // of its files, since it was made
	Stays   string   `json:"stays,omitzero"`    // why it does, though no run names it
	Removed bool     `json:"removed"`
}

// storesIn looks for the stores in folders and in the cache, and may remove those that no run names.
func storesIn(folders []string, remove bool) (*madeStores, error) {
	if root := cache.Root(); root != "" {
		folders = append(slices.Clone(folders), within(root, "stores-*")...)
		folders = append(folders, within(root, "imports/*")...)
	}
	found := &madeStores{Stores: []madeStore{}} // not null in JSON
	var piped copies
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, refusal.Errorf("%w; name folders with files that weft has imported", err)
		}
		for _, e := range entries {
			store := filepath.Join(folder, e.Name())
			if !e.IsDir() || !cli.IsStore(store) || !datasets.OfSources(store) {
				continue
			}
			one := madeStore{
				Store: store, Bytes: bytesIn(store), Runs: runsOf(store), Changed: datasets.Outdated(store),
			}
			if len(one.Runs) == 0 {
				one.Stays = stays(store)
			}
			if remove && len(one.Runs) == 0 && one.Stays == "" {
				piped = append(piped, datasets.RecordedFiles(store)...)
				if err := os.RemoveAll(store); err != nil {
					return nil, err
				}
				one.Removed = true
			}
			found.Stores = append(found.Stores, one)
		}
	}
	return found, piped.leave()
}

// stays says why a store is not removed that no run names; empty: it may be.
func stays(store string) string {
	files := datasets.RecordedFiles(store)
	if len(files) == 0 {
		return "it does not say which files it was made of"
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return file + " is not there to make it again"
		}
	}
	if datasets.CheckOwn(store) != nil {
		return "not all in it is a store's"
	}
	return ""
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
func (m *madeStores) Print(out io.Writer) {
	if len(m.Stores) == 0 {
		fmt.Fprintln(out, "no store was made of files here")
		return
	}
	t := ui.NewTable(out)
	t.Row("STORE", "SIZE", "OF FILES", "")
	for _, s := range m.Stores {
		what := "no run names it; --remove removes it"
		switch {
		case len(s.Runs) > 0:
			what = "stays, as runs need it: " + refusal.List(s.Runs, 3)
		case s.Stays != "":
			what = "stays, as " + s.Stays
		case s.Removed:
			what = "removed"
		}
		t.Row(s.Store, ui.Megabytes(s.Bytes), ui.When(len(s.Changed) > 0, "that have changed"), what)
	}
	t.Flush()
}
