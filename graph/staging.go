package graph

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"weft/internal/atomicfile"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// staging is a store that is being written, in a hidden directory beside its final place. The first error stays and makes
// every later step do nothing.
type staging struct {
	name  string // of the store, as the caller spells it
	dir   string // where the files are written; empty when it is renamed or removed
	final string // where they will be, an absolute path
	open  []*arrayFile
	err   error
}

// stage makes the hidden directory, after it has made sure that the store can take its place.
func stage(dir string) (*staging, error) {
	final, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(final); err == nil {
		final = real
	}
	if entries, err := os.ReadDir(final); err == nil && len(entries) > 0 {
		return nil, refusal.Errorf("%s: exists and is not empty; remove it or choose another place", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("%s: exists and is not an empty directory; remove it or choose another place", dir)
	}
	parent, name := filepath.Split(final)
	if _, err := os.Stat(parent); err != nil {
		return nil, refusal.Errorf("%s: the directory %s is not there; create it or choose another place", dir, parent)
	}
	hidden := filepath.Join(parent, atomicfile.Hidden(name))
	if err := os.Mkdir(hidden, 0o777); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &staging{name: dir, dir: hidden, final: final}, nil
}

// failure is the first error, under the name of the store.
func (s *staging) failure() error {
	if s.err == nil {
		return nil
	}
	return fmt.Errorf("%s: writing it: %w", s.name, s.err)
}

// abort removes the hidden directory, if it is still there.
func (s *staging) abort() error {
	for _, a := range s.open {
		_ = a.f.Close()
	}
	s.open = nil
	if s.dir == "" {
		return nil
	}
	dir := s.dir
	s.dir = ""
	return os.RemoveAll(dir)
}

// commit writes graph.json, brings everything to disk and gives the directory its final name.
func (s *staging) commit(d *description) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	s.file(descriptionFile, append(text, '\n'))
	if s.err == nil {
		s.err = atomicfile.SyncDir(s.dir)
	}
	if s.err == nil {
		// rename(2) itself, as os.Rename does not replace an empty directory.
		s.err = unix.Rename(s.dir, s.final)
	}
	if s.err == nil {
		s.dir = ""
		s.err = atomicfile.SyncDir(filepath.Dir(s.final))
	}
	return s.failure()
}

// vertices writes the files of a vertex type.
func (s *staging) vertices(g *Graph) {
	v := g.Vertices()
	if f := &g.Features; f.Sparse() {
		s.int64s(featuresIndptrFile, f.Indptr, v+1)
		s.int32s(featuresIndicesFile, f.Indices, len(f.Indices))
		s.float32s(featuresDataFile, f.Data, len(f.Data))
	} else if f.Columns > 0 {
		s.float32s(featuresFile, f.Dense, v, f.Columns)
	}
	if l := &g.Labels; l.MultiLabel() {
		s.float32s(labelsFile, l.Multi, v, l.Classes)
	} else if l.Class != nil {
		s.int64s(labelsFile, l.Class, v)
	}
	s.splits(g.Splits)
	s.names(namesFile, g.Names)
	s.names(classNamesFile, g.Labels.Names)
}

// relation writes the files of an edge type.
func (s *staging) relation(r *Relation) {
	s.int64s(indptrFile, r.Indptr, len(r.Indptr))
	s.int32s(indicesFile, r.Sources, len(r.Sources))
	if r.Weights != nil {
		s.float32s(weightsFile, r.Weights, len(r.Weights))
	}
	if r.EdgeColumns > 0 {
		s.float32s(edgeFeaturesFile, r.EdgeFeatures, len(r.Sources), r.EdgeColumns)
	}
}

func (s *staging) splits(splits []Split) {
	if len(splits) == 0 {
		return
	}
	for part, file := range splitFiles {
		rows, width := make([][]int64, len(splits)), 0
		for k := range splits {
			rows[k] = *splits[k].parts()[part]
			width = max(width, len(rows[k]))
		}
		if len(splits) == 1 {
			s.int64s(file, rows[0], width)
			continue
		}
		a := s.array(file, "<i8", len(splits), width)
		for _, row := range rows {
			a.int64s(row)
			a.int64s(slices.Repeat([]int64{-1}, width-len(row)))
		}
		a.close()
	}
}

// names writes a list of names, one per line; nothing where names is nil.
func (s *staging) names(file string, names []string) {
	if names == nil || s.err != nil {
		return
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if s.err = encoder.Encode(names); s.err == nil {
		s.file(file, b.Bytes())
	}
}

// file writes a whole file and brings it to disk.
func (s *staging) file(name string, data []byte) {
	if s.err != nil {
		return
	}
	var f *os.File
	if f, s.err = os.Create(filepath.Join(s.dir, name)); s.err != nil {
		return
	}
	_, err := f.Write(data)
	s.err = errors.Join(err, f.Sync(), f.Close())
}

func (s *staging) int64s(file string, v []int64, shape ...int) {
	a := s.array(file, "<i8", shape...)
	a.int64s(v)
	a.close()
}

func (s *staging) int32s(file string, v []int32, shape ...int) {
	a := s.array(file, "<i4", shape...)
	a.int32s(v)
	a.close()
}

func (s *staging) float32s(file string, v []float32, shape ...int) {
	a := s.array(file, "<f4", shape...)
	a.float32s(v)
	a.close()
}

// arrayFile is an array of a store that is being written. Its errors go to the staging.
type arrayFile struct {
	s *staging
	f *os.File
	b *bufio.Writer
	w *npy.Writer
}

// array begins an array. After an error it returns nil, which takes everything and does nothing.
func (s *staging) array(file, descr string, shape ...int) *arrayFile {
	if s.err != nil {
		return nil
	}
	var f *os.File
	if f, s.err = os.Create(filepath.Join(s.dir, file)); s.err != nil {
		return nil
	}
	a := &arrayFile{s: s, f: f, b: bufio.NewWriterSize(f, 1<<20)}
	s.open = append(s.open, a)
	a.w, s.err = npy.NewWriter(a.b, descr, shape...)
	return a
}

func (a *arrayFile) int64s(v []int64) {
	if a != nil && a.s.err == nil {
		a.s.err = a.w.WriteInt64s(v)
	}
}

func (a *arrayFile) int32s(v []int32) {
	if a != nil && a.s.err == nil {
		a.s.err = a.w.WriteInt32s(v)
	}
}

func (a *arrayFile) float32s(v []float32) {
	if a != nil && a.s.err == nil {
		a.s.err = a.w.WriteFloat32s(v)
	}
}

// close checks that the array is complete and brings it to disk.
func (a *arrayFile) close() {
	if a == nil || a.s.err != nil {
		return
	}
	a.s.open = slices.DeleteFunc(a.s.open, func(b *arrayFile) bool { return a == b })
	if err := errors.Join(a.w.Close(), a.b.Flush(), a.f.Sync(), a.f.Close()); err != nil {
		a.s.err = fmt.Errorf("%s: %w", filepath.Base(a.f.Name()), err)
	}
}
