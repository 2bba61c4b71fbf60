package data

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"weft/graph/tables"
	"weft/internal/datasets"
)

// What stands for standard input in the place of a table.
const (
	stdin     = "-"
	stdinFile = "/dev/stdin"
)

// isPipe reports whether a path is standard input or a pipe, as <(…) of a shell is.
func isPipe(path string) bool {
	info, err := os.Stat(path)
	return path == stdin || path == stdinFile || err == nil && info.Mode()&fs.ModeNamedPipe != 0
}

// copies are files in the cache that stand for pipes.
type copies []string

// leave removes those that are there, and have no store beside them.
func (c copies) leave() (err error) {
	for _, path := range c {
		if filepath.Base(path) == datasets.PipedFile {
			err = errors.Join(err, datasets.LeavePiped(filepath.Dir(path)))
		}
	}
	return err
}

// of puts copies in the place of pipes, in arguments that are FILE or NAME=FILE: a table may be read several
// times.
func (c *copies) of(arguments []string) error {
	for i, argument := range arguments {
		_, path := tables.Named(argument)
		if !isPipe(path) {
			continue
		}
		pipe, name := os.Stdin, "standard input"
		if path != stdin && path != stdinFile {
			var err error
			if pipe, err = os.Open(path); err != nil {
				return err
			}
			defer pipe.Close()
			name = path
		}
		copied, err := datasets.Piped(pipe, name)
		if err != nil {
			return err
		}
		*c = append(*c, copied)
		arguments[i] = strings.TrimSuffix(argument, path) + copied
	}
	return nil
}

// ofTables does so to lists of edges, and to the tables of vertices that a flag names.
func (c *copies) ofTables(flags *pflag.FlagSet, lists []string) error {
	if err := c.of(lists); err != nil {
		return err
	}
	f := flags.Lookup("vertices-from")
	if f == nil || !f.Changed {
		return nil
	}
	of, _ := f.Value.(pflag.SliceValue)
	files := of.GetSlice()
	if err := c.of(files); err != nil {
		return err
	}
	return of.Replace(files)
}

// ofImport does so to those of an import. A list alone is read once, and needs no copy.
func (c *copies) ofImport(flags *pflag.FlagSet, lists []string) error {
	if len(lists) == 1 && !flags.Changed("vertices-from") && !flags.Changed(EdgeLabelFlag) &&
		!flags.Changed("edge-features") {
		if lists[0] == stdin {
			lists[0] = stdinFile
		}
		return nil
	}
	return c.ofTables(flags, lists)
}
