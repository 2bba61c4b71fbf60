package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/graph"
	"weft/graph/ppi"
	"weft/internal/datasets"
	"weft/internal/foreign"
	"weft/internal/refusal"
)

// recognition is what a path that is no store seems to hold.
type recognition struct {
	path   string
	format string   // of importers
	source string   // what the import is given
	part   bool     // the path is one file of several, all of which source names
	flags  []string // that the import needs with this source
}

// command is the import with a store's path.
func (r *recognition) command(store string) string {
	return strings.Join(slices.Concat([]string{"weft import", r.format, r.source, store}, r.flags), " ")
}

// recognize finds the format of a path: by its first bytes, by files beside it, by what a folder holds.
func recognize(path string) (r recognition, found bool) {
	if prefix, whole := planetoidPrefix(path); prefix != "" {
		return recognition{path: path, format: "planetoid", source: prefix, part: !whole}, true
	}
	info, err := os.Stat(path)
	if err != nil {
		return r, false
	}
	if info.IsDir() {
		return recognizeFolder(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return r, false
	}
	defer f.Close()
	r.path, r.source = path, path
	name := strings.ToLower(strings.TrimSuffix(filepath.Base(path), ".gz"))
	named := func(endings ...string) bool {
		return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, e) })
	}
	switch foreign.Of(f) {
	case foreign.Archive:
		r.format = "npz"
	case foreign.Torch, foreign.OldTorch:
		r.format = "pyg"
	case foreign.DGLGraph:
		r.format = "dgl"
	case foreign.Parquet:
		r.format = "edges"
	case foreign.Unknown, foreign.Gzip:
		switch {
		case named(".nt"):
			r.format = "rdf"
		case named(".csv", ".tsv", ".txt", ".edges", ".edgelist"):
			r.format = "edges"
		case named(".json") && isDGLPartition(path):
			r.format = "dgl"
		}
	}
	return r, r.format != ""
}

// unknownFlag says of a flag that import does not have whether the format of the source has it.
func (r *recognition) unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	of, _, missing := cmd.Find([]string{r.format})
	if missing != nil {
		return missing
	}
	of.InheritedFlags() // adds them to its flags
	if name := err.GetSpecifiedName(); of.Flags().Lookup(name) != nil {
		return refusal.Errorf("--%s: is a flag of the format %s, whose name it needs: %s --%[1]s", name, r.format, r.command("STORE"))
	}
	return unknownFlag(of, err)
}

// severalSources refuses a folder that is no source itself, but holds some.
func severalSources(folder string) error {
	entries, _ := os.ReadDir(folder) // one that is no folder holds none
	var sources []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".weft") {
			continue
		}
		if r, found := recognize(filepath.Join(folder, e.Name())); found && !slices.Contains(sources, r.source) {
			sources = append(sources, r.source)
		}
	}
	if len(sources) == 0 {
		return nil
	}
	const most = 5
	listed := strings.Join(sources[:min(most, len(sources))], ", ") + when(len(sources) > most, ", …")
	return refusal.Errorf("%s: is no store, but a folder with %s; name one of them", folder, listed)
}

// planetoidPrefix is the prefix of the files of a citation graph as Planetoid has them, and whether the path
// is that prefix and not one of the files; "" if it is neither.
func planetoidPrefix(path string) (prefix string, whole bool) {
	parts := []string{".x", ".y", ".tx", ".ty", ".allx", ".ally", ".graph", ".test.index"}
	has := func(prefix string) bool {
		for _, part := range parts {
			if info, err := os.Stat(prefix + part); err != nil || info.IsDir() {
				return false
			}
		}
		return true
	}
	if has(path) {
		return path, true
	}
	for _, part := range parts {
		if prefix, ends := strings.CutSuffix(path, part); ends && has(prefix) {
			return prefix, false
		}
	}
	return "", false
}

// isDGLPartition reports whether a JSON file describes the partitions of a graph, as DGL writes it.
func isDGLPartition(path string) bool {
	info, err := os.Stat(filepath.Join(filepath.Dir(path), "part0"))
	return err == nil && info.IsDir()
}

// recognizeFolder finds the format of a folder.
func recognizeFolder(path string) (r recognition, found bool) {
	has := func(pattern ...string) []string {
		matches, _ := filepath.Glob(filepath.Join(append([]string{path}, pattern...)...)) // the patterns are well formed
		return matches
	}
	r.path, r.source = path, path
	switch rules := has("split", "*"); {
	case isStore(path):
		return r, false
	case ppi.Is(path):
		r.format = "ppi"
	case ppi.Is(filepath.Join(path, "raw")):
		r.format, r.source = "ppi", filepath.Join(path, "raw")
	case len(has("raw")) > 0 && len(rules) > 0:
		r.format = "ogb"
		if len(rules) == 1 {
			r.flags = []string{"--split", filepath.Base(rules[0])}
		}
	case len(has("*_Packages*")) > 0:
		r.format = "debian"
	case len(has("part0")) > 0 && len(has("*.json")) == 1:
		r.format, r.source = "dgl", has("*.json")[0]
	default:
		return r, false
	}
	return r, true
}

// storeBeside is the store that a source is imported into where a command names the source: beside it.
func (r *recognition) storeBeside() string { return filepath.Clean(r.source) + ".weft" }

// imported returns the store of a source, which it imports if that has not been done, or has changed since.
// The store is beside the source or, where that folder cannot be written to, in the cache.
func (r *recognition) imported(show io.Writer) (string, error) {
	if r.part {
		return "", refusal.Errorf("%s: is one file of several; name them all by their prefix: weft train %s, or weft import planetoid %[2]s STORE", r.path, r.source)
	}
	changed, err := r.changed()
	if err != nil {
		return "", err
	}
	store, into := r.storeBeside(), "once"
	made, absent := os.Stat(filepath.Join(store, "graph.json"))
	if absent == nil && made.ModTime().After(changed.last) {
		return store, nil
	}
	if unwritable := writable(filepath.Dir(store)); unwritable != nil {
		if store, err = datasets.ImportOf(r.source, changed.bytes, changed.last); err != nil {
			return "", refusal.Errorf("%s: its folder cannot be written to (%w), and %w; import it elsewhere: %s", r.path, unwritable, err, r.command("STORE"))
		}
		if _, err := os.Stat(filepath.Join(store, "graph.json")); err == nil {
			return store, nil
		}
		into = "once, into the cache because its folder cannot be written to"
	} else if absent == nil {
		if err := r.removeOld(store); err != nil {
			return "", err
		}
	}
	if err := checkNewStore(store); err != nil {
		return "", err
	}
	fmt.Fprintf(show, "%s: importing it %s, as %s does\n", printable(r.source), into, printable(r.command(store)))
	c := &changes{}
	i, flags, err := r.importer(c)
	if err != nil {
		return "", err
	}
	request := &importRequest{sources: []string{r.source}, store: store, changes: c, flags: flags}
	defer removeOnSignal(os.Stderr, store)()
	started, shown := time.Now(), newStages(os.Stderr)
	request.progress = shown.show
	contents, err := makeStore(i, request)
	shown.erase()
	if err != nil {
		return "", r.lacks(err)
	}
	for _, warning := range contents.Warnings {
		fmt.Fprintln(os.Stderr, "weft: warning: "+warning)
	}
	for _, note := range contents.Notes {
		fmt.Fprintln(show, note)
	}
	fmt.Fprintln(show, storeLine(store, contents, time.Since(started)))
	return store, nil
}

// writable says why no folder can be made in a folder; nil: one can. It tries, as permissions do not tell
// all.
func writable(folder string) error {
	made, err := os.MkdirTemp(folder, ".weft-")
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	if err != nil {
		return err
	}
	return os.Remove(made)
}

// removeOld removes the store of an earlier import of the source, if it is that and nothing else.
func (r *recognition) removeOld(store string) error {
	again := func(why string) error {
		return refusal.Errorf("%s has changed since %s was made of it, and %s: remove that folder, or import into another: %s", r.path, store, why, r.command("STORE"))
	}
	if err := datasets.CheckOwn(store); err != nil {
		return again("not all in it is a store's (" + err.Error() + ")")
	}
	g, err := graph.Open(store)
	if err != nil {
		return again(err.Error())
	}
	defer g.Close()
	if len(r.flags) == 0 && strings.HasSuffix(g.Provenance, ")") {
		return again("it was imported with flags of its own")
	}
	return os.RemoveAll(store)
}

// importer is that of the format, with its flags.
func (r *recognition) importer(c *changes) (importer, *pflag.FlagSet, error) {
	all := importers(c)
	i := all[slices.IndexFunc(all, func(i importer) bool { return i.format().name == r.format })]
	flags := pflag.NewFlagSet(r.format, pflag.ContinueOnError)
	c.flags(flags)
	i.flags(flags)
	return i, flags, flags.Parse(r.flags)
}

// change is what tells whether the files of a source are others than before.
type change struct {
	last  time.Time // when one of them changed
	bytes int64     // of all of them
}

// changed looks at the files of the source.
func (r *recognition) changed() (c change, err error) {
	files := []string{r.source}
	if r.format == "planetoid" {
		files, _ = filepath.Glob(r.source + ".*")
		files = slices.DeleteFunc(files, func(f string) bool { return f == r.storeBeside() })
	}
	for _, path := range files {
		if real, err := filepath.EvalSymlinks(path); err == nil { // of a link the file counts
			path = real
		}
		err = errors.Join(err, filepath.WalkDir(path, func(_ string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if info.ModTime().After(c.last) {
				c.last = info.ModTime()
			}
			if info.Mode().IsRegular() {
				c.bytes += info.Size()
			}
			return nil
		}))
	}
	return c, err
}

// lacks adds to a refusal of a graph that was imported as it is which import can be given flags, and where
// the store stays that a command with other settings takes.
func (r *recognition) lacks(err error) error {
	if err == nil || !refusal.Is(err) {
		return err
	}
	if store := r.storeBeside(); isStore(store) {
		err = fmt.Errorf("%w; the store %s stays for the next command with this source", err, store)
	}
	return fmt.Errorf("%w; the import of this source is %s", err, r.command("STORE"))
}

// fromSource finds what a command's argument was recognized as, if it is no store and no dataset.
func fromSource(argument string) (r recognition, found bool) {
	if isStore(argument) || isDataset(argument) {
		return r, false
	}
	return recognize(argument)
}

// isDataset reports whether a command's argument is the name of a dataset.
func isDataset(argument string) bool {
	return slices.ContainsFunc(datasets.All(), func(d datasets.Dataset) bool { return d.Name == argument })
}
