package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/datasets"
	"weft/graph/kg"
	"weft/graph/streamed"
	"weft/graph/tables"
	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// recognition is what a path that is no store seems to hold.
type recognition struct {
	path     string
	Format   string   // the name of one of the formats
	source   string   // the argument of the import
	lists    []string // several lists of edges as arguments, the first of which is source; nil: one
	part     bool     // the path is one of several files, all of which source names
	flags    []string // the flags that the import needs with this source, and given
	train    string   // as Source.Train
	label    bool     // as Source.Label
	supplied []string // flags that a command was given for the import, with places of files
}

// sources are the arguments of the import.
func (r *recognition) sources() []string {
	if r.lists != nil {
		return slices.Clone(r.lists)
	}
	return []string{r.source}
}

// command is the import with a store's path.
func (r *recognition) command(store string) string {
	words := []string{"weft import", r.Format}
	for _, word := range append(r.sources(), store) {
		words = append(words, refusal.ShellWord(word))
	}
	for _, word := range r.flags {
		words = append(words, refusal.ShellFlag(word))
	}
	return strings.Join(words, " ")
}

// Recognize finds the format of a path, by its first bytes, by files beside it, and by what a folder holds.
func Recognize(path string) (r recognition, found bool) {
	if prefix, whole := planetoidPrefix(path); prefix != "" {
		return recognition{path: path, Format: "planetoid", source: prefix, part: !whole}, true
	}
	info, err := os.Stat(path)
	if err != nil {
		return r, false
	}
	if info.IsDir() {
		return recognizeFolder(path)
	}
	f, _, err := regular.Open(path)
	if err != nil {
		return r, false
	}
	defer f.Close()
	r.path, r.source = path, path
	name := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".zst"))
	named := func(endings ...string) bool {
		return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, e) })
	}
	switch foreign.Of(f) {
	case foreign.Archive:
		r.Format = "npz"
	case foreign.Torch, foreign.OldTorch:
		r.Format = "pyg"
	case foreign.DGLGraph:
		r.Format = "dgl"
	case foreign.Parquet:
		r.Format = EdgesFormat
	case foreign.Unknown, foreign.Gzip, foreign.Zstd:
		switch {
		case named(".nt"):
			r.Format = "rdf"
			if triples, flags, found := datasets.RDF(filepath.Dir(path)); found &&
				triples == filepath.Clean(path) {
				r.flags = flags
			}
		case named(".csv", ".tsv", ".txt", ".edges", ".edgelist"):
			r.Format = EdgesFormat
		case named(".json") && isDGLPartition(path):
			r.Format = "dgl"
		}
	}
	return r, r.Format != ""
}

// UnknownFlag says, about a flag that import does not have, whether the format of the source has it.
func (r *recognition) UnknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	command, _, missing := cmd.Find([]string{r.Format})
	if missing != nil {
		return missing
	}
	command.InheritedFlags() // this adds them to its flags
	if name := err.GetSpecifiedName(); command.Flags().Lookup(name) != nil {
		return refusal.Errorf("--%s: is a flag of the format %s; name the format, too: %s --%[1]s", name,
			r.Format, r.command("STORE"))
	}
	return cli.UnknownFlag(command, err)
}

// severalSources refuses a folder that is no source itself, but holds some.
func severalSources(folder string) error {
	entries, _ := os.ReadDir(folder) // a path that is no folder holds none
	var sources []string
	parts := true
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".weft") {
			continue
		}
		if r, found := Recognize(filepath.Join(folder, e.Name())); found &&
			!slices.Contains(sources, r.source) {
			sources, parts = append(sources, r.source), parts && r.Format == EdgesFormat
		}
	}
	if len(sources) == 0 {
		return nil
	}
	const most = 5
	listed := strings.Join(sources[:min(most, len(sources))], ", ") + ui.When(len(sources) > most, ", …")
	return refusal.Errorf("%s: is no store, but a folder with %s; name one of them%s", folder, listed,
		ui.When(parts, "; if they are parts of one table, import them: weft import edges "+
			refusal.ShellWord(folder)+" STORE"))
}

// planetoidParts are the ends of the names of a citation graph's files.
var planetoidParts = []string{".x", ".y", ".tx", ".ty", ".allx", ".ally", ".graph", ".test.index"}

// planetoidPrefix is the prefix of the files of a citation graph, as Planetoid has them; "": the path is
// neither the prefix nor one of the files. whole reports whether the path is the prefix.
func planetoidPrefix(path string) (prefix string, whole bool) {
	has := func(prefix string) bool {
		for _, part := range planetoidParts {
			if info, err := os.Stat(prefix + part); err != nil || info.IsDir() {
				return false
			}
		}
		return true
	}
	if has(path) {
		return path, true
	}
	for _, part := range planetoidParts {
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

// within are the paths in a folder that match a pattern, whatever the folder's own name.
func within(folder, pattern string) (paths []string) {
	names, _ := fs.Glob(os.DirFS(folder), pattern) // the patterns are well formed
	for _, name := range names {
		paths = append(paths, filepath.Join(folder, name))
	}
	return paths
}

// recognizeFolder finds the format of a folder.
func recognizeFolder(path string) (r recognition, found bool) {
	has := func(pattern string) []string { return within(path, pattern) }
	r.path, r.source = path, path
	raw := filepath.Join(path, "raw") // PyG downloads into this folder
	switch rules := has("split/*"); {
	case cli.IsStore(path):
		return r, false
	case kg.Is(path):
		r.Format = "kg"
	case kg.Is(raw):
		r.Format, r.source = "kg", raw
	case len(has("raw")) > 0 && len(rules) > 0:
		r.Format = "ogb"
		if len(rules) == 1 {
			r.flags = []string{"--split", filepath.Base(rules[0])}
		}
	case len(has("*_Packages*")) > 0:
		r.Format = "debian"
	case len(has("part0")) > 0 && len(has("*.json")) == 1:
		r.Format, r.source = "dgl", has("*.json")[0]
	case slices.ContainsFunc([]string{"edge_index.npy", "edge_types.npy", "edges.npy", "adj_indptr.npy"},
		func(name string) bool { return len(has(name)) > 0 }):
		r.Format = "npz"
	default:
		for _, folder := range []string{path, raw} {
			if triples, flags, found := datasets.RDF(folder); found {
				r.Format, r.source, r.flags = "rdf", triples, flags
				return r, true
			}
		}
		if tables.AreParts(path) {
			r.Format = EdgesFormat
		}
	}
	return r, r.Format != ""
}

// storeBeside is the store into which a source is imported if a command names the source. It is beside the
// source, or beside the table of which the source is a part.
func (r *recognition) storeBeside() string {
	path := filepath.Clean(r.source)
	if r.Format == EdgesFormat {
		path = datasets.BesideTable(path, cli.IsFolder(path))
	}
	if len(r.supplied) > 0 {
		path += "." + datasets.KeyOf(r.supplied...)
	}
	return path + ".weft"
}

// Made reports whether a store is where imported puts the store of the source.
func (r *recognition) Made(store string) bool {
	is := func(version string) bool { return cli.SameFile(store, version) }
	if slices.ContainsFunc(datasets.Versions(r.storeBeside()), is) {
		return true
	}
	cached, err := datasets.ImportOf(r.source, r.supplied...)
	return err == nil && slices.ContainsFunc(datasets.Versions(cached), is)
}

// imported returns the store of a source. It imports the source unless that has been done, and the source has
// not changed since. The store is beside the source or, if that folder cannot be written to, in the cache.
// Each list of flags that a command gives has a store of its own.
func (r *recognition) imported(ctx context.Context, show io.Writer) (string, error) {
	if r.part {
		return "", refusal.Errorf("%s: is one file of several; name them all by their prefix: weft train "+
			"%s, or weft import planetoid %[2]s STORE", r.path, r.source)
	}
	m, into := datasets.Making{Name: ui.Printable(r.source), Store: r.storeBeside(), Used: used}, "once"
	request, err := r.request(m.Store, nil)
	if err != nil {
		return "", err
	}
	if err := request.checkLabel(); err != nil && r.label {
		return "", r.leadOn(request, err)
	}
	m.Sources = request.files()
	if made, err := m.Made(); made || err != nil {
		return m.Store, err
	}
	if unwritable := datasets.Writable(filepath.Dir(m.Store)); unwritable != nil {
		if m.Store, err = datasets.ImportOf(r.source, r.supplied...); err != nil {
			return "", refusal.Errorf("%s: its folder cannot be written to (%w), and %w; import it "+
				"elsewhere: %s", r.path, unwritable, err, r.command("STORE"))
		}
		if made, err := m.Made(); made || err != nil {
			return m.Store, err
		}
		into = "once, into the cache because its folder cannot be written to"
	}
	m.Say = func(line string) { fmt.Fprintln(show, line) }
	m.Replaceable = func() error { return r.checkOld(m.Store) }
	var (
		imported *streamed.Written
		started  time.Time
	)
	m.Make = func(store string) (err error) {
		started = time.Now()
		m.Say(fmt.Sprintf("%s: importing it %s, as %s does", m.Name, into, ui.Printable(r.command(m.Store))))
		imported, err = r.importInto(store, show)
		return err
	}
	if err := m.Do(ctx); err != nil {
		return "", r.withImport(err)
	}
	if imported == nil {
		return m.Store, nil // another process has made it
	}
	return m.Store, describeStore(m.Store, imported, time.Since(started), os.Stderr, show)
}

// importInto imports the source as it is. It shows its progress on show.
func (r *recognition) importInto(store string, show io.Writer) (*streamed.Written, error) {
	request, err := r.request(store, nil)
	if err != nil {
		return nil, err
	}
	if show != io.Discard {
		show = os.Stderr
	}
	shown := ui.NewPhases(show)
	defer shown.Erase()
	request.progress = shown.Show
	made, err := request.makeStore()
	return made, r.leadOn(request, err)
}

// leadOn adds to a refusal of columns the command that would work.
func (r *recognition) leadOn(request *importRequest, err error) error {
	if r.train != "" {
		return request.leadOn(err, r.train, "")
	}
	return request.leadOn(err, "weft import "+r.Format, "STORE")
}

// importDataset makes the store of a dataset.
func importDataset(store string, i datasets.Import) error {
	recognized := recognition{Format: i.Format, source: i.Source, flags: i.Flags}
	request, err := recognized.request(store, nil)
	if err != nil {
		return err
	}
	request.dataset = &i
	_, err = request.makeStore()
	return err
}

// checkOld refuses to replace what is at the place of the source's store, unless it is from an earlier import
// of the source as it is.
func (r *recognition) checkOld(store string) error {
	if !cli.IsStore(store) {
		return checkNewStore(store)
	}
	again := func(why string) error {
		return refusal.Errorf("%s: what %s was made of has changed, and %s: remove that folder, name it "+
			"in the place of the source, or import into another: %s",
			r.path, store, why, r.command("STORE"))
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
	return nil
}

// request returns the import of the source into a store, with the flags that it needs. supplied are the flags
// that the command line sets, too; nil: none.
func (r *recognition) request(store string, supplied *pflag.FlagSet) (*importRequest, error) {
	c, flags := &changes{}, pflag.NewFlagSet(r.Format, pflag.ContinueOnError)
	general := pflag.NewFlagSet(r.Format, pflag.ContinueOnError)
	c.flags(general)
	reader := formatNamed(r.Format).flags(flags, c)
	flags.AddFlagSet(general) // except those that the format has under the same name
	err := flags.Parse(r.flags)
	if supplied != nil {
		supplied.Visit(func(f *pflag.Flag) {
			if flags.Lookup(f.Name) != nil {
				err = errors.Join(err, flags.Set(f.Name, f.Value.String()))
			}
		})
	}
	return &importRequest{
		format: r.Format, sources: r.sources(), store: store, reader: reader, changes: c, flags: flags,
	}, err
}

// files are the files and folders that the source consists of.
func (r *recognition) files() (files []string) {
	in := func(folder string, patterns ...string) {
		for _, pattern := range patterns {
			files = append(files, within(folder, pattern)...)
		}
	}
	switch r.Format {
	case "planetoid":
		for _, part := range planetoidParts {
			files = append(files, r.source+part)
		}
	case "ogb":
		in(r.source, "raw", "split")
	case "debian":
		in(r.source, "*_Packages*")
	case "kg":
		files = kg.Files(r.source)
	case "dgl":
		if isDGLPartition(r.source) {
			in(filepath.Dir(r.source), "part*")
		}
	}
	if len(files) == 0 || r.Format == "dgl" {
		files = append(files, r.source)
	}
	return files
}

// withImport adds to a refusal of a graph that was imported as it is: import can be given flags.
func (r *recognition) withImport(err error) error {
	if !refusal.Is(err) || errors.As(err, new(*unclear)) {
		return err
	}
	return fmt.Errorf("%w; the import of this source is %s", err, r.command("STORE"))
}

// lacks is withImport after the import. It adds where the store stays that a command with other settings
// takes.
func (r *recognition) lacks(err error) error {
	if store := r.storeBeside(); refusal.Is(err) && cli.IsStore(store) {
		err = fmt.Errorf("%w; the store %s stays for the next command with this source", err, store)
	}
	return r.withImport(err)
}

// FromSource returns the recognized form of a command's argument, if that is no store and no dataset.
func FromSource(source Source) (r recognition, found bool) {
	if cli.IsStore(source.Name) || datasets.Named(source.Name) != nil {
		return r, false
	}
	r, found = Recognize(source.Name)
	if !found && source.tables() {
		if info, err := os.Stat(source.Name); err == nil && info.IsDir() && refuseRun(source.Name) == nil {
			r, found = recognition{path: source.Name, Format: EdgesFormat, source: source.Name}, true
		}
	}
	if found {
		source.addTo(&r)
	}
	return r, found
}
