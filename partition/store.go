package partition

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/internal/atomicfile"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// Folder is the directory of a store that holds its partitions.
const Folder = "partitions"

// Each directory of Folder holds one division into partitions: a description, the assignment, and a directory
// for each partition, named by its number.
const (
	descriptionFile = "partition.json"
	assignmentFile  = "assignment.npy" // int32, V
	partitionAgain  = "partition the graph again"
)

// CheckWritable refuses a store that this process cannot write to.
func CheckWritable(store string) error {
	dir := filepath.Join(store, Folder)
	err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK, unix.AT_EACCESS)
	if errors.Is(err, unix.ENOENT) {
		dir = store
		err = unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return refusal.Errorf("%s: cannot be written to (%w), but partitions are stored with the graph; "+
			"partition a copy of the store", dir, err)
	}
	return nil
}

// Name returns the name of stored partitions: the method and the number of partitions, as in metis-8.
func Name(method string, k int) string { return fmt.Sprintf("%s-%d", method, k) }

// Directory returns the directory of the partitions of that name, whether it exists or not.
func Directory(store, name string) string { return filepath.Join(store, Folder, name) }

// CheckPlace refuses a store where partitions of that name would be written elsewhere, through a symbolic
// link, or would replace files that weft did not write.
func CheckPlace(store, name string) error {
	if err := graph.CheckPlace(store, filepath.Join(Folder, name)); err != nil {
		return err
	}
	return checkOwn(Directory(store, name))
}

// CheckOwn refuses a store whose directory of partitions holds files that weft did not write.
func CheckOwn(store string) error {
	dir := filepath.Join(store, Folder)
	if err := graph.CheckPlace(store, Folder); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, _, _ := strings.Cut(strings.TrimPrefix(e.Name(), "."), ".")
		if e.IsDir() && atomicfile.IsHidden(e.Name(), name) { // left by a process that was killed
			continue
		}
		if err := checkOwn(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checkOwn refuses a directory that Write did not make. A missing directory is accepted.
func checkOwn(dir string) error {
	k := 0
	err := graph.CheckOwn(dir, descriptionFile, func(e fs.DirEntry) bool {
		p, err := strconv.Atoi(e.Name())
		if e.IsDir() && err == nil && strconv.Itoa(p) == e.Name() && p >= 0 && p < MaxPartitions {
			k = max(k, p+1)
			return true
		}
		return e.Type().IsRegular() && (e.Name() == descriptionFile || e.Name() == assignmentFile)
	})
	if err == nil {
		var r *record
		if r, err = readRecord(dir); err == nil && k > r.K {
			err = refusal.Errorf("%s: not one of the %d partitions, in a folder that would be replaced; "+
				"move it elsewhere or remove it", filepath.Join(dir, strconv.Itoa(k-1)), r.K)
		}
	}
	for p := 0; err == nil && p < k; p++ {
		err = graph.CheckOwn(filepath.Join(dir, strconv.Itoa(p)), "", func(fs.DirEntry) bool { return false })
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // removed meanwhile, or missing
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Write stores the shares of a partitioned graph with the graph, which must have been opened from the store.
// It returns their name: the method and the number of partitions, as in metis-8. It replaces partitions of
// that name, unless they are not weft's: see CheckPlace. The new ones appear complete or not at all. It
// writes in streams, within the memory that Go's runtime may use: it needs some 20 bytes for each vertex, the
// labels of one share, a few MB for each core, and some 200 MB of edges. A source with more edges than that
// needs more.
func Write(store string, g *graph.Graph, a *Assignment, progress graph.Progress) (name string, err error) {
	if err := a.check(g); err != nil {
		return "", err
	}
	if err := g.CheckStored(store); err != nil {
		return "", err
	}
	if err := CheckWritable(store); err != nil {
		return "", err
	}
	name = Name(a.Method, a.K)
	if err := CheckPlace(store, name); err != nil {
		return "", err
	}
	files, err := graph.Identify(store)
	if err != nil {
		return "", err
	}
	folder, err := graph.CreateFolder(store, filepath.Join(Folder, name))
	if err != nil {
		return "", err
	}
	defer folder.Abort()
	err = g.Guard(func() error {
		whole, err := writeShares(folder, g, a, progress)
		if err != nil {
			return err
		}
		if err := folder.AddInt32s(assignmentFile, a.Parts); err != nil {
			return err
		}
		return folder.AddJSON(descriptionFile,
			record{formatVersion, Description{
				Name: name, Statistics: whole.Statistics, Balance: a.Balance, Seed: a.Seed, Split: a.Split,
				Written: time.Now().UTC(), ID: contentID(files, a), Whole: *whole,
			}.Record(), files})
	})
	if err == nil {
		err = CheckPlace(store, name) // again, as this took a while
	}
	if err == nil {
		err = folder.Commit()
	}
	return name, err
}

// writeShares writes the shares into a folder. It returns the description of the whole graph.
func writeShares(folder *graph.Folder, g *graph.Graph, a *Assignment,
	progress graph.Progress,
) (*Whole, error) {
	var parts []*graph.Writer
	d := newDivider(g, a, progress)
	err := d.in(func(p int, part *graph.Part) (graph.Sink, error) {
		to, err := folder.CreatePart(strconv.Itoa(p), part)
		parts = append(parts, to)
		return to, err
	})
	if err != nil {
		return nil, err
	}
	for _, p := range d.places { // the out-edges need only the starts
		p.IDs, p.Positions = nil, nil
	}
	memory.Free() // the out-edges need the memory of the in-edges
	if err := d.out(); err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := part.Close(); err != nil {
			return nil, err
		}
	}
	return &d.whole, nil
}

// contentID returns Description.ID. Equal ids mean equal shares.
func contentID(files []graph.FileRecord, a *Assignment) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintln(h, f.Name, f.SHA256)
	}
	fmt.Fprintln(h, formatVersion, a.K)
	for part := range slices.Chunk(a.Parts, 1<<14) {
		_ = binary.Write(h, binary.LittleEndian, part) // a hash returns no error
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// List describes the partitions stored with a graph, oldest first.
func List(store string) ([]Description, error) { return list(store, func(string) bool { return true }) }

// list describes the partitions with a wanted name.
func list(store string, wanted func(name string) bool) ([]Description, error) {
	parent := filepath.Join(store, Folder)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, unix.ENOTDIR) {
		err = refusal.Errorf("%w; the partitions of a store lie in a folder of that name", err)
	}
	if err != nil {
		return nil, err
	}
	var all []Description
	for _, e := range entries {
		if !e.IsDir() || e.Name()[0] == '.' || !wanted(e.Name()) { // hidden: being written
			continue
		}
		r, err := readRecord(filepath.Join(parent, e.Name()))
		if errors.Is(err, fs.ErrNotExist) && !there(filepath.Join(parent, e.Name())) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r.Description)
	}
	slices.SortFunc(all, func(a, b Description) int { return a.Written.Compare(b.Written) })
	return all, nil
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Find returns the k partitions of a method that were stored last; the empty method stands for all methods.
// found is false if there are none. Find refuses partitions of a store that has changed since, as CheckFresh
// does.
func Find(store string, k int, method string) (d Description, found bool, err error) {
	all, err := list(store, func(name string) bool { return strings.HasSuffix(name, Name(method, k)) })
	if err != nil {
		return Description{}, false, err
	}
	for _, d := range slices.Backward(all) {
		if d.K != k || method != "" && d.Method != method {
			continue
		}
		if err := d.CheckFresh(store); err != nil {
			return Description{}, false, err
		}
		return d, true, nil
	}
	return Description{}, false, nil
}

var opening sync.Mutex

// Open maps the share of partition p, and no other file of the store, and checks it. Close releases it. The
// error for a damaged file names the file and the reason.
func Open(store string, d Description, p int) (*Share, error) {
	if p < 0 || p >= d.K {
		return nil, refusal.Errorf("partition %d of %s: it has those from 0 to %d", p, d.Name, d.K-1)
	}
	dir := Directory(store, d.Name)
	opening.Lock() // one at a time: reading a record of many partitions takes memory
	defer opening.Unlock()
	part, err := d.openPart(dir, p)
	if err != nil {
		return nil, err
	}
	if err := d.checkCounts(p, part); err != nil {
		return nil, errors.Join(refusal.Damaged("%s: %w; %s", filepath.Join(dir, strconv.Itoa(p)), err,
			partitionAgain), part.Graph.Close())
	}
	places := func(kind int) (*Places, error) { return d.order.read(&d, store, kind) }
	return newShare(part, p, d.Whole, places, storedIn(store)), nil
}

// openPart opens the files of partition p. Another process may replace the directory before or while they are
// read. Equal partitions in its place are read again; others are refused.
func (d *Description) openPart(dir string, p int) (*graph.Part, error) {
	for {
		// while it is open, no other directory takes its inode
		before, err := os.OpenFile(dir, unix.O_PATH, 0)
		if errors.Is(err, fs.ErrNotExist) {
			err = refusal.Errorf("%w; %s", err, partitionAgain)
		}
		if err != nil {
			return nil, err
		}
		part, err := graph.OpenPart(filepath.Join(dir, strconv.Itoa(p)))
		changed := d.checkThere(dir)
		same := isSame(before, dir)
		if e := before.Close(); e != nil {
			return nil, e
		}
		if changed == nil && same {
			return part, err
		}
		if err == nil {
			changed = errors.Join(changed, part.Graph.Close())
		}
		if changed != nil {
			return nil, changed
		}
	}
}

// isSame reports whether an open file is the one at path.
func isSame(file *os.File, path string) bool {
	a, err := file.Stat()
	b, err2 := os.Stat(path)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// Check refuses stored partitions with a missing or damaged file. It opens each share, and compares the
// assignment with the shares and with the stored id. It takes memory for one share and four bytes per vertex.
func Check(store string, d Description, progress graph.Progress) error {
	parts, err := d.readAssignment(store)
	if err != nil {
		return err
	}
	for p := range d.K {
		if err := graph.CheckSums(filepath.Join(Directory(store, d.Name), strconv.Itoa(p)),
			fmt.Sprintf("%s, share %d", d.Name, p), progress); err != nil {
			return err
		}
		s, err := Open(store, d, p)
		if err != nil {
			return err
		}
		if v := s.Edges.misplaced(parts); v >= 0 {
			err = refusal.Damaged("%s: has vertex %d, which %s gives to another partition; %s",
				filepath.Join(Directory(store, d.Name), strconv.Itoa(p)), v, assignmentFile, partitionAgain)
		}
		if err := errors.Join(err, s.Close()); err != nil {
			return err
		}
	}
	return nil
}

// readAssignment reads the partition of each vertex, and checks that the shares were made from it.
func (d *Description) readAssignment(store string) ([]int32, error) {
	path := filepath.Join(Directory(store, d.Name), assignmentFile)
	file, size, err := regular.Open(path)
	if err != nil {
		return nil, refusal.Advise(err, partitionAgain)
	}
	defer file.Close()
	var parts []int32
	array, err := npy.Read(file, size)
	if err == nil {
		parts, err = array.Int32s()
	}
	if err == nil && contentID(d.files, &Assignment{K: d.K, Parts: parts}) != d.ID {
		err = refusal.Damaged("is not the assignment that the partitions were cut by")
	}
	if err != nil {
		return nil, refusal.Errorf("%s: %w; %s", path, err, partitionAgain)
	}
	return parts, nil
}

// order is the order of stored partitions. It is read once for each vertex type.
type order struct {
	sync.Mutex
	places map[int]*Places
}

// read reads the order of d's partitions in that store, in a vertex type.
func (o *order) read(d *Description, store string, kind int) (*Places, error) {
	o.Lock()
	defer o.Unlock()
	if o.places[kind] != nil {
		return o.places[kind], nil
	}
	parts, err := d.readAssignment(store)
	if err != nil {
		return nil, err
	}
	if wrong := func(p int32) bool {
		return p < 0 || int(p) >= d.K
	}; len(parts) != d.Whole.Vertices || slices.ContainsFunc(parts, wrong) {
		return nil, refusal.Errorf("%s: not one partition of %d for each of %d vertices; %s",
			filepath.Join(Directory(store, d.Name), assignmentFile), d.K, d.Whole.Vertices, partitionAgain)
	}
	first := 0
	for _, t := range d.Whole.Types[:kind] {
		first += t.Vertices
	}
	if o.places == nil {
		o.places = map[int]*Places{}
	}
	o.places[kind] = newPlaces(parts[first:first+d.Whole.Types[kind].Vertices], d.K)
	return o.places[kind], nil
}

// misplaced returns a row's vertex that the assignment gives to another partition, by its id in the whole
// graph; −1: none.
func (e *PartEdges) misplaced(parts []int32) int {
	before := 0 // vertices of earlier types
	for _, rows := range e.Types {
		for _, id := range rows.IDs {
			v := before + int(id)
			if v >= len(parts) || int(parts[v]) != e.P {
				return v
			}
		}
		before += rows.Starts[len(rows.Starts)-1]
	}
	return -1
}

// checkCounts compares the part of partition p with the description.
func (d *Description) checkCounts(p int, part *graph.Part) error {
	g := part.Graph
	if len(g.Types) != len(d.Whole.Types) || len(g.Relations) != len(d.Halos()) {
		return fmt.Errorf("%d vertex types and %d relations, where %s says %d and %d",
			len(g.Types), len(g.Relations), descriptionFile, len(d.Whole.Types), len(d.Halos()))
	}
	for i, t := range g.Types {
		if want := &d.Whole.Types[i]; t.Name() != want.Type || t.Count != d.Types[i][p] ||
			t.Features.Columns != want.FeatureColumns {
			return fmt.Errorf("%d vertices %q with %d features, where %s says %d %q with %d",
				t.Count, t.Name(), t.Features.Columns, descriptionFile, d.Types[i][p], want.Type,
				want.FeatureColumns)
		}
	}
	whole := 0
	for _, n := range part.Whole {
		whole += n
	}
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"vertices in the whole graph", int64(whole), int64(d.Whole.Vertices)},
		{"in-edges", g.Edges(), d.Edges[p]},
		{"classes", int64(g.Types[0].Labels.Classes), int64(d.Whole.Classes)},
		{"values of a vertex", int64(g.Types[0].Labels.Columns), int64(d.Whole.ValueColumns)},
		{"splits", int64(len(g.Types[0].Splits)), int64(len(d.Whole.Splits))},
	} {
		if c.got != c.want {
			return fmt.Errorf("%d %s, where %s says %d", c.got, c.what, descriptionFile, c.want)
		}
	}
	return nil
}
