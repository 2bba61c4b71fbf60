package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/autograd"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/internal/safetensors"
)

const (
	manifestFile = "manifest.json"
	kept         = 2 // how many checkpoints stay
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Folder holds the checkpoints of a run, each in a folder of its own. No link in it is followed.
type Folder struct {
	path string
	root *os.Root
}

// OpenFolder opens the folder at a path. It makes the folder if there is none.
func OpenFolder(path string) (*Folder, error) {
	above, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	return OpenFolderIn(above, path)
}

// OpenFolderIn is OpenFolder below an open folder, the one above the path. If another folder has taken its
// place since it was opened, that one is left alone.
func OpenFolderIn(above *os.Root, path string) (*Folder, error) {
	base := filepath.Base(path)
	err := above.Mkdir(base, 0o777)
	if err == nil {
		err = atomicfile.SyncRoot(above)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if info, err := above.Lstat(base); err == nil && !info.IsDir() {
		return nil, notFolder(path)
	}
	root, err := above.OpenRoot(base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Folder{path, root}, nil
}

// notFolder is the refusal of a link or a file at the path. A link is refused because old checkpoints are
// removed from the folder.
func notFolder(path string) error {
	return refusal.Errorf("%s: not a folder, but a link or a file; move it away, or put the folder there",
		path)
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// CheckRoom returns a refusal if the disk has fewer bytes left.
func (f *Folder) CheckRoom(bytes int64) error {
	free, known, err := atomicfile.Free(f.path)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if known && free < bytes {
		return fmt.Errorf("%s: the disk has %.1f MB left, and a checkpoint and the results take %.1f MB",
			f.path, float64(free)/1e6, float64(bytes)/1e6)
	}
	return nil
}

// File is a file of a checkpoint.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	CRC32C uint32 `json:"crc32c"`
}

// name is the name of the checkpoint after an epoch.
func name(epoch int) string { return fmt.Sprintf("epoch-%09d", epoch) }

// unfinished is its name until it is whole.
func unfinished(epoch int) string { return "." + name(epoch) + ".tmp" }

// Write writes a worker's file of the checkpoint after an epoch, and brings it to disk. All workers write
// their files at the same time.
func (f *Folder) Write(epoch, worker int, arrays []Array, metadata map[string]string) (file File, err error) {
	dir := unfinished(epoch)
	if err := f.root.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return file, err
	}
	file.Name = fileName(worker)
	path := filepath.Join(dir, file.Name)
	to, err := f.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return file, err
	}
	sum := &summed{to: to}
	all, vertices := tensors(arrays)
	maps.Copy(vertices, metadata)
	err = safetensors.Write(sum, all, vertices)
	if err == nil {
		err = to.Sync()
	}
	file.Bytes, file.CRC32C = sum.bytes, sum.crc
	return file, errors.Join(err, to.Close())
}

// summed counts the bytes that it writes, and computes their checksum.
type summed struct {
	to    io.Writer
	bytes int64
	crc   uint32
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.bytes, s.crc = s.bytes+int64(n), crc32.Update(s.crc, castagnoli, p[:n])
	return n, err
}

// verticesKey begins the names of the tensors that list the vertices of an embedding's rows. The metadata
// tells which list belongs to an array.
const verticesKey = "vertices."

// tensors returns the tensors of a file, and metadata that says to which vertices an embedding's rows belong.
func tensors(arrays []Array) (all map[string]safetensors.Tensor, metadata map[string]string) {
	all, metadata = map[string]safetensors.Tensor{}, map[string]string{}
	lists := map[*autograd.RowSet]string{}
	for _, a := range Elements(arrays) {
		t := safetensors.Tensor{Shape: a.Shape, Float32: a.Floats, BFloat16: a.BFloat16s}
		if a.Count != nil {
			t = safetensors.Tensor{Shape: []int{}, Int64: []int64{*a.Count}}
		}
		all[a.Name] = t
		if a.Rows == nil || a.Rows.IDs == nil {
			continue
		}
		list, listed := lists[a.Rows]
		if !listed {
			list = fmt.Sprint(verticesKey, len(lists))
			lists[a.Rows] = list
			ids := make([]int64, 0, a.Rows.Here)
			for _, v := range a.Rows.IDs.Int32s() {
				ids = append(ids, int64(v))
			}
			all[list] = safetensors.Tensor{Shape: []int{len(ids)}, Int64: ids}
		}
		metadata[verticesKey+a.Name] = list
	}
	return all, metadata
}

// Manifest says what a checkpoint consists of.
type Manifest struct {
	Format int    `json:"format"`
	Epoch  int    `json:"epoch"`
	Files  []File `json:"files"`
	// Run is what the run keeps besides arrays.
	Run       json.RawMessage `json:"run"`
	RunCRC32C uint32          `json:"run_crc32c"`
}

const format = 1

// Commit makes the checkpoint after an epoch whole, once all its files are written. It then removes all older
// checkpoints except the last. It fails if a file is not in the folder.
func (f *Folder) Commit(epoch int, files []File, run any) error {
	dir := unfinished(epoch)
	for _, file := range files {
		there, err := f.root.Lstat(filepath.Join(dir, file.Name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || there.Size() != file.Bytes {
			return fmt.Errorf("%s is not in %s here: the machines of all workers need one folder, on a "+
				"shared file system", file.Name, f.path)
		}
	}
	raw, err := json.Marshal(run)
	if err != nil {
		return err
	}
	text, err := json.Marshal(Manifest{format, epoch, files, raw, crc32.Checksum(raw, castagnoli)})
	if err != nil {
		return err
	}
	in, err := f.root.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = atomicfile.WriteIn(in, manifestFile, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err := errors.Join(err, in.Close()); err != nil {
		return err
	}
	if err := f.root.RemoveAll(name(epoch)); err != nil { // a damaged checkpoint
		return err
	}
	if err := f.root.Rename(dir, name(epoch)); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(f.path); err != nil {
		return err
	}
	return f.removeOld()
}

// removeOld removes all checkpoints but the last ones.
func (f *Folder) removeOld() error {
	epochs, err := Epochs(f.path)
	if err != nil {
		return err
	}
	for _, old := range epochs[min(kept, len(epochs)):] {
		if err := f.root.RemoveAll(name(old)); err != nil {
			return err
		}
	}
	return nil
}

// Abandon removes what was written of a checkpoint that will not become whole.
func (f *Folder) Abandon(epoch int) error { return f.root.RemoveAll(unfinished(epoch)) }

// ContinueFrom removes what a run that continues after an epoch (0: from the start) does not need. These are
// later checkpoints, which it has found damaged, unfinished checkpoints of a killed run, and old ones that a
// killed run had not removed.
func (f *Folder) ContinueFrom(epoch int) error {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, named := epochOf(strings.TrimSuffix(strings.TrimPrefix(e.Name(), "."), ".tmp"))
		if !named || n <= epoch && e.Name() != unfinished(n) {
			continue
		}
		if err := f.root.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	return f.removeOld()
}

// Epochs returns the epochs after which the folder at a path has checkpoints, the last one first. If there is
// no folder it returns none.
func Epochs(path string) (epochs []int, err error) {
	if info, err := os.Lstat(path); err == nil && !info.IsDir() {
		return nil, notFolder(path)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if n, whole := epochOf(e.Name()); whole && e.IsDir() {
			epochs = append(epochs, n)
		}
	}
	slices.SortFunc(epochs, func(a, b int) int { return b - a })
	return epochs, nil
}

// epochOf returns the epoch in the name of a checkpoint.
func epochOf(entry string) (epoch int, named bool) {
	_, err := fmt.Sscanf(entry, "epoch-%d", &epoch)
	return epoch, err == nil && epoch > 0 && entry == name(epoch)
}

// IsFile reports whether a file of that name may belong to a checkpoint.
func IsFile(name string) bool {
	worker := 0
	_, err := fmt.Sscanf(name, "worker-%d", &worker)
	return name == manifestFile || err == nil && name == fileName(worker)
}

func fileName(worker int) string { return fmt.Sprintf("worker-%d.safetensors", worker) }
