package setting

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"weft/internal/memory"
	"weft/internal/number"
	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/program"
)

// kept says that a setting names a file, unless its text is one of the choices or empty, and that a run keeps
// that file in its directory.
type kept struct {
	name string // of the run's copy
	is   string // what the file is, for a message about another file
	// text is the contents of the file, with a label for it; nil: it has not been read.
	text func(o *Options) (label string, text []byte)
	read func(o *Options, f io.Reader) error
}

// namesFile reports whether the setting's value is a file to keep.
func (s Setting) namesFile(o *Options) bool {
	text := s.Text(o)
	return s.keeps != nil && text != "" && !slices.Contains(s.Choices, text)
}

// recorded is the text of the setting in records of a run. A file that the run keeps is recorded by its
// contents.
func (s Setting) recorded(o *Options) string {
	if s.namesFile(o) {
		if label, text := s.keeps.text(o); text != nil {
			return fmt.Sprintf("%s-%08x", label, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
		}
	}
	return s.Text(o)
}

// File is a file or a store that a setting names.
type File struct{ Setting, Path string }

// Files are the files and stores that the options name.
func (o *Options) Files() (files []File) {
	for _, s := range settings {
		if text := s.Text(o); s.namesFile(o) || s.isFile != nil && s.isFile(text) {
			files = append(files, File{s.Name, text})
		}
	}
	return files
}

// Kept are the files that a run keeps, by their names in its directory.
func (o *Options) Kept() map[string][]byte {
	files := map[string][]byte{}
	for _, s := range settings {
		if s.namesFile(o) {
			_, files[s.keeps.name] = s.keeps.text(o)
		}
	}
	return files
}

// KeptNames are the names of all files that runs keep.
func KeptNames() (names []string) {
	for _, s := range settings {
		if s.keeps != nil {
			names = append(names, s.keeps.name)
		}
	}
	return names
}

// ReadKept reads the files that the run in a directory keeps.
func (o *Options) ReadKept(dir string) error {
	for _, s := range settings {
		if !s.namesFile(o) {
			continue
		}
		if err := s.Set(o, filepath.Join(dir, s.keeps.name)); err != nil {
			return err
		}
	}
	return o.ReadFiles()
}

// WeightsFile is the name of the weights in the directory of a run.
const WeightsFile = "model.safetensors"

// ReadFiles reads the program, the loss and the schedule that the options name, unless they have been read.
// The directory of a run, in place of a file of weights, stands for the weights in it.
func (o *Options) ReadFiles() error {
	if info, err := os.Stat(o.Init); err == nil && info.IsDir() {
		o.Init = filepath.Join(o.Init, WeightsFile)
	}
	for _, s := range settings {
		if !s.namesFile(o) {
			continue
		}
		if err := s.readFile(o); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads the file that the setting names, unless it has been read. It refuses a word that is neither
// a choice nor the name of a file.
func (s Setting) readFile(o *Options) error {
	path := s.Text(o)
	switch _, text := s.keeps.text(o); {
	case text != nil:
		return nil
	case s.Choices != nil && filepath.Ext(path) == "":
		return s.refuse(o, "%s", s.unknown(path))
	}
	f, size, err := regular.Open(path)
	if err != nil {
		return refusal.Errorf("--%s %w; %s", s.Name, err, s.keeps.is)
	}
	defer f.Close()
	if err = memory.Need(size); err == nil {
		err = s.keeps.read(o, f)
	}
	if err != nil {
		return refusal.Errorf("--%s %s: %w", s.Name, path, err)
	}
	return nil
}

// lossFile is a file with the caller's own loss, which has been read.
type lossFile struct {
	path string
	*program.Loss
}

// LossFile is the loss in the file that Loss names; nil: Loss is one of task.LossNames.
func (o *Options) LossFile() *program.Loss {
	if o.lossFile.path != o.Loss {
		return nil
	}
	return o.lossFile.Loss
}

var lossKept = &kept{
	name: "loss.json", is: "it names the loss.json of a run",
	text: func(o *Options) (string, []byte) {
		l := o.LossFile()
		if l == nil {
			return "", nil
		}
		return l.Class, l.Text()
	},
	read: func(o *Options, f io.Reader) error {
		l, err := program.ReadLoss(f)
		if err == nil {
			o.lossFile = lossFile{o.Loss, l}
		}
		return err
	},
}

// scheduleFile is a file with a factor of the learning rate for each epoch, which has been read.
type scheduleFile struct {
	path    string
	text    []byte
	factors []float64
}

// Factors are the factors of the learning rate, by epoch, in the file that Schedule names; nil: Schedule is
// one of optim.Schedules.
func (o *Options) Factors() []float64 {
	if o.scheduleFile.path != o.Schedule {
		return nil
	}
	return o.scheduleFile.factors
}

var scheduleKept = &kept{
	name: "schedule.txt", is: "it is a name, or a text file with a factor for each epoch",
	text: func(o *Options) (string, []byte) {
		if o.Factors() == nil {
			return "", nil
		}
		return "factors", o.scheduleFile.text
	},
	read: func(o *Options, f io.Reader) error {
		text, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		var factors []float64
		for _, field := range bytes.Fields(text) {
			x, err := number.Parse(string(field), 64)
			if err != nil || !(x >= 0) || math.IsInf(x, 0) {
				return fmt.Errorf("%.40q is no factor, which is a number from 0", field)
			}
			factors = append(factors, x)
		}
		if factors == nil {
			return errors.New("it is empty; write a factor of the learning rate for each epoch")
		}
		o.scheduleFile = scheduleFile{o.Schedule, text, factors}
		return nil
	},
}
