package planner

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"weft/internal/atomicfile"
	"weft/internal/document"
)

// Cache is the file that keeps what was measured on this machine by this program.
type Cache struct {
	Path string // "": nothing is kept
	On   string // tells this program and processor from others, whose file is not read
}

// kept is what the file holds.
type kept struct {
	On    string           `json:"on"`
	Rates map[string]Rates `json:"rates"` // by the hash of what they depend on
}

const (
	mostBytes = 4 << 20 // of the file
	mostRates = 500     // that it holds, the newest
)

// of returns the rates of a key. It measures them if the file does not have them, and writes them there.
func (c Cache) of(key []byte, measure func() (*Rates, error)) (*Rates, error) {
	if c.Path == "" {
		return measure()
	}
	file, err := c.read()
	if err != nil {
		return nil, err
	}
	hash := fmt.Sprintf("%x", sha256.Sum256(key))
	if r, found := file.Rates[hash]; found {
		r.Path = c.Path
		return &r, nil
	}
	r, err := measure()
	if err != nil {
		return nil, err
	}
	if r.Unkept = c.keep(hash, r); r.Unkept == nil {
		r.Path = c.Path
	}
	return r, nil
}

// read reads the file. One that cannot be read, or is of another program or processor, is empty.
func (c Cache) read() (kept, error) {
	var file kept
	if text, err := document.Read(c.Path, mostBytes); err == nil {
		damaged := json.Unmarshal(text, &file) != nil
		if !damaged && file.On != c.On {
			return kept{}, nil
		}
		for _, r := range file.Rates {
			damaged = damaged || len(r.Kernels) == 0
		}
		if damaged {
			return kept{}, fmt.Errorf("%s: no rates of kernels; remove the file, and they are measured again",
				c.Path)
		}
	}
	return file, nil
}

// keep adds rates to what the file has by now. Other processes that do so meanwhile wait. On a file system
// without locks one of two may be lost, whose rates are then measured again.
func (c Cache) keep(hash string, r *Rates) error {
	folder := filepath.Dir(c.Path)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	locked, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer locked.Close()
	_ = unix.Flock(int(locked.Fd()), unix.LOCK_EX)
	file, err := c.read()
	if err != nil {
		return err
	}
	if file.Rates == nil {
		file = kept{c.On, map[string]Rates{}}
	}
	file.Rates[hash] = *r
	if oldest := slices.SortedFunc(maps.Keys(file.Rates), func(a, b string) int {
		return cmp.Or(file.Rates[a].Measured.Compare(file.Rates[b].Measured), cmp.Compare(a, b))
	}); len(oldest) > mostRates {
		delete(file.Rates, oldest[0])
	}
	return atomicfile.Write(c.Path, func(w io.Writer) error { return json.NewEncoder(w).Encode(&file) })
}
