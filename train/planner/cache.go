package planner

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/atomicfile"
	"weft/internal/document"
)

// Cache is the file that keeps what was measured on this machine by this program.
type Cache struct {
	Path string // "": nothing is kept
	On   string // tells this program and processor from others, whose file is not read
	// Warn is told why rates that the file should have are measured again, and why they are not kept. It may
	// be nil.
	Warn func(why error)
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

// of returns the rates of a key. It measures them if the file does not have them, and writes them there. A
// file that is damaged is replaced.
func (c Cache) of(ctx context.Context, key []byte, measure func() (*Rates, error)) (*Rates, error) {
	if c.Path == "" {
		return measure()
	}
	file, err := c.read()
	if err != nil {
		c.warn(fmt.Errorf("%w; they are measured again, and the file is replaced", err))
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
	if r.Unkept = c.keep(ctx, hash, r); r.Unkept == nil {
		r.Path = c.Path
	} else {
		c.warn(fmt.Errorf("not kept: %w", r.Unkept))
	}
	return r, nil
}

func (c Cache) warn(why error) {
	if c.Warn != nil {
		c.Warn(why)
	}
}

// read reads the file. One that is not there is empty; so is one that has no rates of this program and
// processor, with an error that says so.
func (c Cache) read() (file kept, err error) {
	text, err := document.Read(c.Path, mostBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR): // keep says why it cannot be made
		return kept{}, nil
	case err != nil:
		return kept{}, err
	case json.Unmarshal(text, &file) != nil:
		return kept{}, fmt.Errorf("%s: damaged", c.Path)
	case file.On != c.On:
		return kept{}, fmt.Errorf("%s: of another program or processor", c.Path)
	}
	for _, r := range file.Rates {
		if !r.possible() {
			return kept{}, fmt.Errorf("%s: damaged", c.Path)
		}
	}
	return file, nil
}

// possible reports whether the rates may have been measured.
func (r *Rates) possible() bool {
	for k, rate := range r.Kernels {
		if min(k.Widths[0], k.Widths[1]) < 1 || rate < 0 {
			return false
		}
	}
	return len(r.Kernels) > 0 && min(r.Beside, r.Call) >= 0
}

// keep adds rates to what the file has by now. Other processes that do so meanwhile wait. On a file system
// without locks one of two may be lost, whose rates are then measured again.
func (c Cache) keep(ctx context.Context, hash string, r *Rates) error {
	folder := filepath.Dir(c.Path)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	locked, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer locked.Close()
	if err := lock(ctx, locked); err != nil {
		return err
	}
	file, _ := c.read() // what is damaged is replaced
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

// The wait for a process that has the folder locked: how long between two looks, and how many of them. Rates
// take a moment to keep.
const (
	lockPause  = 50 * time.Millisecond
	lockPauses = 100
)

// lock locks a folder, until it is closed. It waits for another process that has it locked, but not for ever.
// A file system without locks leaves it as it is.
func lock(ctx context.Context, folder *os.File) error {
	for range lockPauses {
		if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			return nil
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%s: another process has locked it", folder.Name())
}
