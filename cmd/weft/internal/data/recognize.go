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
	"weft/graph/streamed"
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

// place is a path that may be a source.
type place struct {
	path    string
	folder  string       // the path, if that is a folder and no store; else ""
	folders []string     // that folder, and raw in it, into which PyG downloads; else nil
	kind    foreign.Kind // of a file
	name    string       // of a file that can be read, in lower case, without the ending of a compression
}

// placeAt looks at a path, and at the first bytes of a file.
func placeAt(path string) place {
	p := place{path: path}
	if cli.IsFolder(path) && !cli.IsStore(path) {
		p.folder, p.folders = path, []string{path, filepath.Join(path, "raw")}
	}
	f, _, err := regular.Open(path)
	if err != nil {
		return p
	}
	defer f.Close()
	p.kind = foreign.Of(f)
	p.name = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".zst"))
	return p
}

// text reports whether the place is a file of text, plain or compressed, whose name has one of the endings.
func (p place) text(endings ...string) bool {
	return (p.kind == foreign.Unknown || p.kind.Compressed()) &&
		slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(p.name, e) })
}

// has are the paths in the folder that match a pattern.
func (p place) has(pattern string) []string { return within(p.folder, pattern) }

// whole is the place as a source, if it is one.
func (p place) whole(is bool) recognition {
	return recognition{source: ui.When(is, p.path)}
}

// Recognize finds the format of a path, by its first bytes, by files beside it, and by what a folder holds.
func Recognize(path string) (r recognition, found bool) {
	p := placeAt(path)
	for _, f := range formats {
		if r = f.recognize(p); r.source != "" {
			r.path, r.Format = path, f.name
			return r, true
		}
	}
	return r, false
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

// recognizeRDF recognizes triples. Those of a graph that weft train NAME reads come with its tables.
func recognizeRDF(p place) recognition {
	for _, folder := range p.folders {
		if triples, flags, found := datasets.RDF(folder); found {
			return recognition{source: triples, flags: flags}
		}
	}
	r := p.whole(p.text(".nt"))
	if triples, flags, _ := datasets.RDF(filepath.Dir(p.path)); triples == filepath.Clean(p.path) {
		r.flags = flags
	}
	return r
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
			"%s, or weft import %s %[2]s STORE", r.path, r.source, r.Format)
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
