package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/internal/document"
	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/internal/safetensors"
	"weft/tensor"
)

// maxManifest bounds the bytes of a manifest that are read. It has room for the curve of millions of epochs.
const maxManifest = 1 << 30

// Checkpoint is a checkpoint that is opened for reading. Several workers may use it.
type Checkpoint struct {
	Manifest
	Path  string
	files []*safetensors.File
}

// Read reads the manifest of the checkpoint after an epoch, in the folder at a path.
func Read(path string, epoch int) (*Checkpoint, error) {
	c := &Checkpoint{Path: filepath.Join(path, name(epoch))}
	file := filepath.Join(c.Path, manifestFile)
	text, err := document.Read(file, maxManifest)
	if err != nil {
		return nil, err
	}
	var version struct{ Format int }
	if json.Unmarshal(text, &version) == nil && version.Format > format { // a newer format, not damage
		return nil, fmt.Errorf("%s: written by a later version of weft; continue the run with that", file)
	}
	// a damaged key must not pass as an unknown one
	if err := document.StrictJSON(text, format, &c.Manifest); err != nil {
		return nil, refusal.Errorf("%s: %w", file, err)
	}
	if c.Epoch != epoch {
		return nil, refusal.Damaged("%s: damaged: it is of epoch %d", file, c.Epoch)
	}
	if c.RunCRC32C != crc32.Checksum(c.Run, castagnoli) ||
		slices.ContainsFunc(c.Files, func(f File) bool { return f.Name != filepath.Base(f.Name) }) {
		return nil, refusal.Damaged("%s: damaged: a checksum or a name of a file is wrong", file)
	}
	return c, nil
}

// Size returns the number of bytes of the checkpoint's files, and the time at which it became whole. It fails
// if a file is missing, or not as long as the manifest says. It reads no file.
func (c *Checkpoint) Size() (bytes int64, written time.Time, err error) {
	manifest, err := os.Stat(filepath.Join(c.Path, manifestFile))
	if err != nil {
		return 0, written, err
	}
	bytes = manifest.Size()
	for _, want := range c.Files {
		path := filepath.Join(c.Path, want.Name)
		info, err := os.Stat(path)
		if err != nil {
			return 0, written, err
		}
		if info.Size() != want.Bytes {
			return 0, written, refusal.Damaged("%s: damaged: %d bytes, where the manifest has %d", path,
				info.Size(), want.Bytes)
		}
		bytes += want.Bytes
	}
	return bytes, manifest.ModTime(), nil
}

// State decodes into run what the run kept besides arrays (Manifest.Run).
func (c *Checkpoint) State(run any) error {
	if err := json.Unmarshal(c.Run, run); err != nil {
		return refusal.Errorf("%s: %w", filepath.Join(c.Path, manifestFile), err)
	}
	return nil
}

// Verify compares the checksums of files first, first+step, first+2·step, … with the manifest.
func (c *Checkpoint) Verify(first, step int) error {
	for i := first; i < len(c.Files); i += step {
		want := c.Files[i]
		path := filepath.Join(c.Path, c.Files[i].Name)
		f, size, err := regular.Open(path)
		if err != nil {
			return err
		}
		sum := crc32.New(castagnoli)
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if size != want.Bytes || sum.Sum32() != want.CRC32C {
			return refusal.Damaged("%s: damaged: %d bytes with the checksum %08x, where the manifest has "+
				"%d with %08x", path, size, sum.Sum32(), want.Bytes, want.CRC32C)
		}
	}
	return nil
}

// Open opens the files. Close closes them.
func (c *Checkpoint) Open() error {
	for _, file := range c.Files {
		f, err := safetensors.Open(filepath.Join(c.Path, file.Name))
		if err != nil {
			return errors.Join(err, c.Close())
		}
		c.files = append(c.files, f)
	}
	return nil
}

// Close closes the files.
func (c *Checkpoint) Close() (err error) {
	for _, f := range c.files {
		err = errors.Join(err, f.Close())
	}
	c.files = nil
	return err
}

// Metadata returns the metadata of a worker's file; nil: it wrote none.
func (c *Checkpoint) Metadata(worker int) map[string]string {
	i := slices.IndexFunc(c.Files, func(f File) bool { return f.Name == fileName(worker) })
	if i < 0 {
		return nil
	}
	return c.files[i].Metadata
}

// Names returns the names of all arrays that begin with a prefix, in order.
func (c *Checkpoint) Names(prefix string) (names []string) {
	for _, f := range c.files {
		for name := range f.Shapes() {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Shape returns the shape of an array; nil: no array has that name.
func (c *Checkpoint) Shape(name string) []int {
	for _, f := range c.files {
		if shape, found := f.Shape(name); found {
			return shape
		}
	}
	return nil
}

// Element returns the element type of a matrix.
func (c *Checkpoint) Element(name string) tensor.Element {
	if slices.ContainsFunc(c.files, func(f *safetensors.File) bool { return f.Dtype(name) == "BF16" }) {
		return tensor.BFloat16
	}
	return tensor.Float32
}

// Load sets the arrays to the stored values. Its error names an array that is missing, or has another shape.
func (c *Checkpoint) Load(arrays []Array) error {
	for _, a := range arrays {
		if err := c.load(a); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checkpoint) load(a Array) error {
	a.elements((*tensor.Matrix).WriteFloats, (*tensor.Matrix).WriteBFloat16s)
	found, rows := false, 0
	for _, f := range c.files {
		shape, has := f.Shape(a.Name)
		if !has {
			continue
		}
		found = true
		switch {
		case a.Count != nil:
			all, err := f.Ints(a.Name)
			if err != nil || len(all) != 1 {
				return errors.Join(err, c.unfit(a.Name, shape, []int{}))
			}
			*a.Count = all[0]
			return nil
		case a.Rows != nil:
			n, err := c.loadRows(f, a, shape)
			rows += n
			if err != nil {
				return err
			}
		case !slices.Equal(shape, a.Shape):
			return c.unfit(a.Name, shape, a.Shape)
		case a.BFloat16s != nil:
			return f.BFloat16s(a.Name, a.BFloat16s)
		default:
			return f.Floats(a.Name, 0, a.Floats)
		}
	}
	if !found {
		return refusal.Errorf("%s: holds no %s; was it written by a run with the same settings?", c.Path,
			a.Name)
	}
	if rows != a.Rows.Here {
		return refusal.Errorf("%s: holds %d of the %d rows of %s that this worker needs", c.Path, rows,
			a.Rows.Here, a.Name)
	}
	return nil
}

func (c *Checkpoint) unfit(name string, there, want []int) error {
	return refusal.Errorf("%s: holds %s as %v, this run needs %v; was it written by a run with the same "+
		"settings?", c.Path, name, there, want)
}

// loadRows loads from a file the rows of this worker's vertices. It returns how many of them the file has.
func (c *Checkpoint) loadRows(f *safetensors.File, a Array, shape []int) (n int, err error) {
	axis := len(a.Shape) - 2
	if len(shape) != len(a.Shape) {
		return 0, c.unfit(a.Name, shape, a.Shape)
	}
	fits := slices.Clone(a.Shape)
	fits[axis] = shape[axis]
	if !slices.Equal(shape, fits) {
		return 0, c.unfit(a.Name, shape, a.Shape)
	}
	here, there, columns := a.Rows.Here, shape[axis], shape[axis+1]
	rowOf := func(v int32) int { return int(v) } // the row of a vertex here
	if a.Rows.IDs != nil {
		ascending := a.Rows.IDs.Int32s()
		rowOf = func(v int32) int {
			if row, found := slices.BinarySearch(ascending, v); found {
				return row
			}
			return -1
		}
	}
	var ids []int64
	if list := f.Metadata[verticesKey+a.Name]; list != "" {
		if ids, err = f.Ints(list); err != nil {
			return 0, err
		}
		if len(ids) != there {
			return 0, c.unfit(list, []int{len(ids)}, []int{there})
		}
	}
	tables := 1
	if axis > 0 {
		tables = shape[0]
	}
	const some = 1 << 12
	buffer := make([]float32, some*columns)
	for table := range tables {
		for from := 0; from < there; from += some {
			to := min(from+some, there)
			rows := buffer[:(to-from)*columns]
			if err := f.Floats(a.Name, (table*there+from)*columns, rows); err != nil {
				return 0, err
			}
			for k := range to - from {
				v := int32(from + k)
				if ids != nil {
					v = int32(ids[from+k])
				}
				row := rowOf(v)
				if row < 0 || row >= here {
					continue
				}
				copy(a.Floats[(table*here+row)*columns:(table*here+row+1)*columns], rows[k*columns:])
				if table == 0 {
					n++
				}
			}
		}
	}
	return n, nil
}
