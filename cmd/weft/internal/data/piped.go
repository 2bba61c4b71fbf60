package data

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"weft/comm/mpi"
	"weft/graph/datasets"
	"weft/graph/tables"
	"weft/internal/refusal"
)

// Arguments that stand for standard input in place of a table.
const (
	stdin     = "-"
	stdinFile = "/dev/stdin"
)

// isPipe reports whether a path is standard input or a pipe, such as <(…) of a shell.
func isPipe(path string) bool {
	info, err := os.Stat(path)
	return path == stdin || path == stdinFile || err == nil && info.Mode()&fs.ModeNamedPipe != 0
}

// copies are files in the cache that stand for pipes.
type copies []copied

type copied struct {
	path string
	pipe string // as it was given; "": unknown
}

// leave removes the copies that exist and have no store beside them.
func (c copies) leave() (err error) {
	for _, file := range c {
		if filepath.Base(file.path) == datasets.PipedFile {
			err = errors.Join(err, datasets.LeavePiped(filepath.Dir(file.path)))
		}
	}
	return err
}

// failed removes the copies, and makes the error of a command that failed: it names the pipes.
func (c copies) failed(err error) error {
	text := err.Error()
	for _, file := range c {
		text = strings.ReplaceAll(text, file.path, file.pipe)
	}
	return errors.Join(ofPipes{err, text}, c.leave())
}

// ofPipes is an error that names pipes in place of their copies.
type ofPipes struct {
	error
	text string
}

func (e ofPipes) Error() string { return e.text }
func (e ofPipes) Unwrap() error { return e.error }

// replace puts copies in place of pipes, in arguments of the form FILE or NAME=FILE, because a table may be
// read several times.
func (c *copies) replace(arguments []string) error {
	for i, argument := range arguments {
		_, path := tables.Named(argument)
		if !isPipe(path) {
			continue
		}
		if mpi.Launched() {
			return refusal.Errorf("%s: each process of a launcher would read it; write the table to a file, and "+
				"name that", path)
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
		file, err := datasets.Piped(pipe, name)
		if err != nil {
			return err
		}
		*c = append(*c, copied{file, path})
		arguments[i] = strings.TrimSuffix(argument, path) + file
	}
	return nil
}

// ofTables does the same to lists of edges, and to the tables of vertices that a flag names.
func (c *copies) ofTables(flags *pflag.FlagSet, lists []string) error {
	if err := c.replace(lists); err != nil {
		return err
	}
	f := flags.Lookup("vertices-from")
	if f == nil || !f.Changed {
		return nil
	}
	values, _ := f.Value.(pflag.SliceValue)
	files := values.GetSlice()
	if err := c.replace(files); err != nil {
		return err
	}
	return values.Replace(files)
}

// ofImport does the same to the tables of an import. A single list is read once, and needs no copy.
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
