package planner

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"weft/internal/atomicfile"
	"weft/internal/document"
)

// Cache is a folder that keeps rates. "" keeps nothing.
type Cache string

// most is the most bytes of a file with rates.
const most = 4 << 20

// of returns the rates of a key. It measures them if the folder does not have them, and writes them there.
func (c Cache) of(key []byte, measure func() (*Rates, error)) (*Rates, error) {
	if c == "" {
		return measure()
	}
	path := filepath.Join(string(c), fmt.Sprintf("%x.json", sha256.Sum256(key)))
	if text, err := document.Read(path, most); err == nil {
		r := &Rates{Path: path}
		if err := json.Unmarshal(text, r); err != nil || len(r.Kernels) == 0 {
			return nil, fmt.Errorf("%s: no rates of kernels; remove the file, and they are measured again",
				path)
		}
		return r, nil
	}
	r, err := measure()
	if err != nil {
		return nil, err
	}
	if r.Unkept = c.keep(path, r); r.Unkept == nil {
		r.Path = path
	}
	return r, nil
}

func (c Cache) keep(path string, r *Rates) error {
	if err := os.MkdirAll(string(c), 0o777); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(r) })
}
