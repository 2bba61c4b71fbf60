package datasets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/cache"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/partition"
)

// revision is part of the cache's path: raise it when reading or generating changes what a dataset holds.
const revision = "1"

// Import is an import of weft import, by the words of its command.
type Import struct {
	Format string
	Source string
	Flags  []string
	Metric string // the metric that the graph is to have; "": the format's
}

// Maker makes the stores of datasets.
type Maker struct {
	Import func(store string, i Import) error
	Say    func(line string)       // takes lines about what takes long
	Used   func(store string) bool // as in Making
}

// NoGraph refuses an argument that names neither a store nor a dataset nor a source. It accepts a folder, as
// reading it says what is missing.
func NoGraph(argument string) error {
	if argument == "" {
		return refusal.Errorf("the name of the graph is empty: name a store or a dataset")
	}
	if info, err := os.Stat(argument); err == nil && info.IsDir() {
		return nil
	} else if err == nil {
		return refusal.Errorf("%s: not a store, which is a folder, nor a file that an import "+
			"recognizes; weft help import lists the formats", argument)
	}
	folder, name := filepath.Split(argument)
	if filepath.Ext(name) != "" {
		if near := suggest.Nearest(name, namesIn(folder)); near != "" {
			return refusal.Errorf("%s: there is no such file or store; did you mean %s?", argument,
				filepath.Join(folder, near))
		}
		return refusal.Errorf("%s: there is no such file or store; weft help import lists the "+
			"formats of files", argument)
	}
	if folder != "" {
		if near := suggest.Nearest(name, storesIn(folder)); near != "" {
			return refusal.Errorf("%s: there is no such store; did you mean %s?", argument,
				refusal.ShellWord(filepath.Join(folder, near)))
		}
		return refusal.Errorf("%s: there is no such store; make it with weft import FORMAT SOURCE %s, "+
			"or take a dataset, as weft datasets lists them",
			argument, refusal.ShellWord(argument))
	}
	names := storesIn(".")
	for _, d := range All() {
		names = append(names, d.Name)
	}
	if near := suggest.Nearest(argument, names); near != "" {
		return refusal.Errorf("%s: neither a store nor a dataset; did you mean %s?", argument, near)
	}
	return refusal.Errorf("%s: there is no such store, file or dataset; weft datasets lists the "+
		"names, and weft import FILE STORE makes a store", argument)
}

// Named is the dataset of that name; nil: there is none.
func Named(name string) *Dataset {
	for _, d := range All() {
		if d.Name == name {
			return &d
		}
	}
	return nil
}

// namesIn are the names in a folder; none if it cannot be read.
func namesIn(folder string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(".", folder))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// storesIn are the names of the stores in a folder; none if it cannot be read.
func storesIn(folder string) (names []string) {
	found, _ := filepath.Glob(filepath.Join(folder, "*", "graph.json")) // none if it has a bracket
	for _, path := range found {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	return names
}

// SourceFiles returns the files of the dataset of that name that are there; none for any other argument.
func SourceFiles(argument string) (files []string) {
	d := Named(argument)
	if d == nil || d.make != nil || d.source.path() == "" {
		return nil
	}
	for _, pattern := range d.source.files() {
		matches, _ := filepath.Glob(pattern) // a malformed pattern has none
		files = append(files, matches...)
	}
	return files
}

// Missing says what the dataset needs that is not here; empty when it can be trained on.
func (d *Dataset) Missing() string {
	if d.make != nil || d.usable(d.cached()) {
		return ""
	}
	if _, err := d.sources(); err != nil {
		return d.source.requires
	}
	return ""
}

// Place is where the files are from which the dataset is read; "": they are not here, or there are none.
func (d *Dataset) Place() string {
	if d.make != nil {
		return ""
	}
	if _, err := d.sources(); err != nil {
		return ""
	}
	return d.source.path()
}

// Size is the number of vertices and of stored edges, if both are known without making the store.
func (d *Dataset) Size() (vertices int, edges int64, known bool) {
	if g, err := graph.Open(d.cached()); err == nil {
		defer g.Close()
		return g.Vertices(), g.Edges(), true
	}
	return d.vertices, d.edges, d.vertices > 0
}

// Store returns the path of the dataset's store. It makes the store if it is not there or older than its
// source. If ctx is cancelled meanwhile, nothing of it stays. A link in its place, or a folder that weft did
// not write, is refused and left alone.
func (m *Maker) Store(ctx context.Context, d *Dataset) (string, error) {
	path := d.cached()
	if path == "" {
		return "", refusal.Errorf("%s: no place for its store: set WEFT_CACHE to a folder", d.Name)
	}
	switch err := graph.CheckPlace(cache.Root(), d.inCache()); {
	case errors.Is(err, syscall.ENOTDIR):
		return "", refusal.Errorf("%s: its store goes into the cache, and %s is not a folder; set "+
			"WEFT_CACHE to one", d.Name, cache.Root())
	case err != nil:
		return "", err
	}
	if d.usable(path) {
		return path, nil
	}
	sources, err := d.sources()
	if err != nil {
		return "", refusal.Errorf("%s: its files are not here (%w): %s", d.Name, err, d.source.get)
	}
	return m.fill(ctx, d, path, sources)
}

// cached is the path of the dataset's store, there or not; "": the user has no cache directory.
func (d *Dataset) cached() string {
	root := cache.Root()
	if root == "" {
		return ""
	}
	return filepath.Join(root, d.inCache())
}

// inCache is cached below the cache's root.
func (d *Dataset) inCache() string { return filepath.Join("stores-"+revision, d.Name) }

// usable reports whether the store is there, readable, and made of the files as they are. A store whose
// source is gone stays usable.
func (d *Dataset) usable(path string) bool {
	if sources, err := d.sources(); err == nil {
		files, err := LookAt(sources)
		if err != nil || !files.Made(path) {
			return false
		}
	}
	return opens(path)
}

// opens reports whether a store can be read.
func opens(store string) bool {
	g, err := graph.Open(store)
	return err == nil && g.Close() == nil
}

// sources are the files of which the dataset is made, or an error that one is missing. A recipe has no files.
func (d *Dataset) sources() (files []string, err error) {
	if d.make != nil {
		return nil, nil
	}
	if d.source.path() == "" {
		return nil, errors.New(dataVariable + " is not set")
	}
	for _, pattern := range d.source.files() {
		matches, err := filepath.Glob(pattern)
		if err != nil || len(matches) == 0 {
			return nil, fmt.Errorf("no %s", pattern)
		}
		files = append(files, matches...)
	}
	return files, nil
}

// CheckOwn refuses a place that holds anything but a store and its partitions, whole or damaged, so that
// nothing else is removed.
func CheckOwn(path string) error {
	err := graph.CheckOwn(path, "graph.json", func(e fs.DirEntry) bool {
		list := e.Name() == sourcesFile || e.Name() == RunsFile
		return e.Name() == partition.Folder || list && e.Type().IsRegular()
	})
	if err == nil {
		err = partition.CheckOwn(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fill makes the store from the sources, and returns its path.
func (m *Maker) fill(ctx context.Context, d *Dataset, path string, sources []string) (string, error) {
	making := Making{Name: d.Name, Store: path, Sources: sources, Say: m.Say, Used: m.Used}
	if made, err := making.Made(); err != nil || made && opens(making.Store) {
		return making.Store, err
	}
	making.Replaceable = func() error { return CheckOwn(making.Store) }
	making.Make = func(store string) error {
		m.Say(fmt.Sprintf("%s: making its store from %s, once", d.Name, strings.TrimSpace(d.from())))
		if err := m.write(store, d); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		return nil
	}
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = Writable(filepath.Dir(path))
	}
	if err != nil {
		return "", fmt.Errorf("%s: its store goes into the cache, %s: %w; set WEFT_CACHE to another folder",
			d.Name, cache.Root(), err)
	}
	return making.Store, making.Do(ctx)
}

// write makes the store under a temporary name.
func (m *Maker) write(store string, d *Dataset) error {
	if d.make != nil {
		return generate.Write(store, *d.make)
	}
	return m.Import(store, d.Import())
}

// Import is the import that makes the dataset's store. Its format is "" if the graph is generated.
func (d *Dataset) Import() (i Import) {
	if d.make != nil {
		return i
	}
	i = Import{d.format, d.source.path(), strings.Fields(d.flags), d.metric}
	if t := d.tables; t != nil {
		i.Source, _, _ = t.in(d.source.path())
		i.Flags = t.flags(d.source.path())
	}
	return i
}

// from names what the store is made of.
func (d *Dataset) from() string {
	if d.make != nil {
		return "its recipe, " + d.Origin
	}
	return d.source.path()
}
