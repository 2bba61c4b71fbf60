package data

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph/datasets"
	"weft/graph/planetoid"
	"weft/internal/cache"
	"weft/internal/refusal"
	"weft/train/rundir"
)

// used reports whether an existing run needs the store.
func used(store string) bool { return len(runsOf(store)) > 0 }

// runsOf are the existing runs that were trained or validated on a store of sources, as far as they have not
// moved since. A run whose state cannot be read counts, as it may continue from a checkpoint.
func runsOf(store string) (runs []string) {
	for _, run := range datasets.NotedRuns(store) {
		state, err := rundir.ReadState(run)
		if err != nil && (rundir.Is(run) || rundir.Begun(run)) || err == nil && uses(&state, store) {
			runs = append(runs, run)
		}
	}
	return runs
}

// uses reports whether a run that a store notes still belongs to it, and is not another run in the same
// folder. A run may name the file on which it is validated, which does not tell the store that was made from
// it.
func uses(state *rundir.State, store string) bool {
	return cli.SameFile(state.Store, store) || state.Settings["validate"] != ""
}

// NewStores makes the command stores.
func NewStores() *cobra.Command {
	asJSON, remove, cached := false, false, false
	cmd := &cobra.Command{
		Use:   "stores [FOLDER…]",
		Short: "list the stores that were made of files on the way, and remove those that no run names",
		Long: `stores lists the stores that weft has made beside files that a command named, FILE.weft or FILE.KEY.weft: those that lie in the folders
(default: the current one), and with --cache those of the user's cache or $WEFT_CACHE. It says which runs were trained or validated on
each, and which of its files have changed since. Runs are looked for where they were trained, and anywhere below the folders: where you
have moved some elsewhere, name that folder, too.

When a file has changed, the next command makes a new store. That takes the old one's place, or is FILE.2.weft where a run that is still
where it was trained names the old one. Each choice of flags of tables has a store of its own. With --remove those go that no run names. A
command that names their files makes them again. A store stays that cannot be made again, as its files are not there, one that has more in
it than weft wrote, and all that no run names where something below the folders cannot be read. Stores of weft import and of weft
generate are not listed, nor are copies under another name.`,
		Example: "  weft stores data\n  weft stores data archive/runs --remove",
		Args:    cli.Arguments(0, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			found, err := storesIn(args, cached, remove)
			if err != nil {
				return err
			}
			return ui.Show(cmd.OutOrStdout(), found, asJSON)
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the stores that no run names")
	cmd.Flags().BoolVar(&cached, "cache", false, "list those of the user's cache or $WEFT_CACHE, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// madeStores are the stores that were made from files on the way: the JSON object of `weft stores --json`.
type madeStores struct {
	Stores []madeStore `json:"stores"`
}

// madeStore is one of them.
type madeStore struct {
	Store   string   `json:"store"`
	Bytes   int64    `json:"bytes"`
	Runs    []string `json:"runs,omitempty"`    // runs that name it
	Changed []string `json:"changed,omitempty"` // files of it that have changed since it was made
	Stays   string   `json:"stays,omitzero"`    // why it stays although no run names it
	Removed bool     `json:"removed"`
}

// storesIn looks for stores in folders and, with cached, in the cache. With remove it removes the stores that
// no run names.
func storesIn(folders []string, cached, remove bool) (*madeStores, error) {
	runs, err := runsBelow(folders)
	if err != nil {
		return nil, refusal.Errorf("%w; name folders with files that weft has imported", err)
	}
	var stores []string
	for _, folder := range folders {
		stores = append(stores, slices.DeleteFunc(within(folder, "*"), func(store string) bool {
			return !isBeside(store)
		})...)
	}
	if root := cache.Root(); cached && root != "" {
		stores = append(stores, within(root, "stores-*/*")...)
		stores = append(stores, within(root, "imports/*/*")...)
	}
	runs.note(stores)
	found := &madeStores{Stores: []madeStore{}} // not null in JSON
	var piped copies
	for _, store := range stores {
		info, err := os.Lstat(store)
		if err != nil || !info.IsDir() || !cli.IsStore(store) || !datasets.OfSources(store) {
			continue
		}
		made := madeStore{
			Store: store, Bytes: bytesIn(store), Runs: runs.naming(store), Changed: datasets.Outdated(store),
		}
		if len(made.Runs) == 0 {
			made.Stays = cmp.Or(stays(store), runs.unread)
		}
		if remove && len(made.Runs) == 0 && made.Stays == "" {
			for _, path := range datasets.RecordedFiles(store) {
				piped = append(piped, copied{path: path})
			}
			if err := os.RemoveAll(store); err != nil {
				return nil, err
			}
			made.Removed = true
		}
		found.Stores = append(found.Stores, made)
	}
	return found, piped.leave()
}

// isBeside reports whether a store has the name that weft gives a store beside its source, and its record
// says that it was made from that source. A copy with another name is the user's own.
func isBeside(store string) bool {
	name, ends := strings.CutSuffix(filepath.Base(store), ".weft")
	folder, err := filepath.EvalSymlinks(filepath.Dir(store))
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if !ends || err != nil {
		return false
	}
	names := []string{name}
	if at := versionEnding.FindStringIndex(name); at != nil {
		names = append(names, name[:at[0]])
	}
	for _, name := range slices.Clone(names) {
		if unkeyed, keyed := datasets.WithoutKey(name); keyed {
			names = append(names, unkeyed)
		}
	}
	files := datasets.RecordedFiles(store)
	for _, name := range names {
		whole := filepath.Join(folder, name)
		for _, source := range append([]string{whole}, planetoid.Files(whole)...) {
			if real, err := filepath.EvalSymlinks(source); err == nil { // otherwise it is gone
				source = real
			}
			if slices.ContainsFunc(files, func(file string) bool { return isOf(file, source) }) {
				return true
			}
		}
	}
	return false
}

// isOf reports whether a file is a source or lies in it. A source may be the path beside a whole table that
// stands for a part of it.
func isOf(file, source string) bool {
	for at := file; at != filepath.Dir(at); at = filepath.Dir(at) {
		if at == source || datasets.BesideTable(at, at != file) == source {
			return true
		}
	}
	return false
}

// versionEnding is the number of a version of a store, before .weft.
var versionEnding = regexp.MustCompile(`\.[0-9]+$`)

// lyingRuns are the runs below some folders, with the graphs that each names.
type lyingRuns struct {
	graphs map[string][]string // by the run's folder
	noted  []string            // the runs that stores note, by their present paths
	unread string              // why a run, or what may be one, could not be read; empty: all could
}

// runsBelow looks for runs in folders and below them, also behind links. The error is about one of the
// folders.
func runsBelow(folders []string) (found *lyingRuns, err error) {
	found = &lyingRuns{graphs: map[string][]string{}}
	seen := map[string]bool{} // a link may lead back to one
	var look func(folder string) error
	look = func(folder string) error {
		real, err := filepath.EvalSymlinks(folder)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if err != nil || seen[real] {
			return err
		}
		seen[real] = true
		if rundir.Is(real) {
			if found.graphs[real], err = rundir.Graphs(real); err != nil {
				found.unread = real + ", a run, does not say which graph it is of"
			}
		}
		entries, err := os.ReadDir(real)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() && e.Type()&fs.ModeSymlink == 0 {
				continue
			}
			path := filepath.Join(real, e.Name())
			if info, err := os.Stat(path); err != nil || !info.IsDir() {
				continue // the link leads to nothing, or to a file
			}
			if err := look(path); err != nil {
				found.unread = path + " cannot be read, and a run may be in it"
			}
		}
		return nil
	}
	for _, folder := range folders {
		if err := look(folder); err != nil {
			return found, err
		}
	}
	return found, nil
}

// note finds out which of the runs are noted by stores.
func (l *lyingRuns) note(stores []string) {
	for _, store := range stores {
		for _, run := range datasets.NotedRuns(store) {
			if real, err := filepath.EvalSymlinks(run); err == nil && l.graphs[real] != nil {
				l.noted = append(l.noted, real)
			}
		}
	}
}

// naming returns the runs that name a store: those that the store notes, and those below the folders.
func (l *lyingRuns) naming(store string) []string {
	runs := runsOf(store)
	for _, run := range slices.Sorted(maps.Keys(l.graphs)) {
		known := slices.ContainsFunc(runs, func(other string) bool { return cli.SameFile(other, run) })
		if !known && slices.ContainsFunc(l.graphs[run], func(path string) bool {
			return names(path, store, slices.Contains(l.noted, run))
		}) {
			runs = append(runs, run)
		}
	}
	return runs
}

// names reports whether a run's path is that of a store, or of the file from which the store was made.
// Several stores may be made from one file: a run that a store notes belongs to that store. A path that leads
// to nothing may have been moved with the store.
func names(path, store string, noted bool) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		suffix, is := strings.CutPrefix(filepath.Base(store), filepath.Base(path))
		return is && (suffix == "" || suffix[0] == '.')
	}
	return cli.SameFile(real, store) || !noted && slices.Contains(datasets.RecordedFiles(store), real)
}

// stays says why a store that no run names is not removed; empty: it may be.
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
	some := slices.ContainsFunc(m.Stores, func(s madeStore) bool { return len(s.Changed) > 0 })
	row := func(store, size, files, what string) {
		if some {
			t.Row(store, size, files, what)
		} else {
			t.Row(store, size, what)
		}
	}
	row("STORE", "SIZE", "OF FILES", "")
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
		row(s.Store, ui.Megabytes(s.Bytes), ui.When(len(s.Changed) > 0, "that have changed"), what)
	}
	t.Flush()
}
