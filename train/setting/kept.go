package setting

import (
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"

	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/program"
)

// kept says that a setting names a file, unless its text is one of the choices or empty, and that a run keeps
// the file in its directory.
type kept struct {
	name string // of the run's copy
	// text is what the file holds, nil: it has not been read, and label a name for that
	text func(o *Options) (label string, text []byte)
}

// namesFile reports whether the setting's value is a file to keep.
func (s Setting) namesFile(o *Options) bool {
	text := s.Text(o)
	return s.keeps != nil && text != "" && !slices.Contains(s.Choices, text)
}

// recorded is the text of the setting in records of a run: a file that it keeps is told by what it holds.
func (s Setting) recorded(o *Options) string {
	if s.namesFile(o) {
		if label, text := s.keeps.text(o); text != nil {
			return fmt.Sprintf("%s-%08x", label, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
		}
	}
	return s.Text(o)
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

// ReadFiles reads the program and the loss that the options name, unless they have been read.
func (o *Options) ReadFiles() error {
	if err := o.readProgram(); err != nil {
		return err
	}
	return o.readLoss()
}

// lossFile is a file with a loss of the caller's own that has been read.
type lossFile struct {
	path string
	*program.Loss
}

// LossFile is the loss that a file has; nil: the loss is one of task.LossNames.
func (o *Options) LossFile() *program.Loss {
	if o.lossFile.path != o.Loss {
		return nil
	}
	return o.lossFile.Loss
}

var lossKept = &kept{"loss.json", func(o *Options) (string, []byte) {
	l := o.LossFile()
	if l == nil {
		return "", nil
	}
	return l.Class, l.Text()
}}

func (o *Options) readLoss() error {
	s, _ := settingNamed("loss")
	if !s.namesFile(o) || o.LossFile() != nil {
		return nil
	}
	if filepath.Ext(o.Loss) == "" { // no file, but a name
		return s.refuse(o, "%s", s.unknown(o.Loss))
	}
	f, _, err := regular.Open(o.Loss)
	if err != nil {
		return refusal.Errorf("--loss %w; it names the loss.json of a run", err)
	}
	defer f.Close()
	l, err := program.ReadLoss(f)
	if err != nil {
		return refusal.Errorf("--loss %s: %w", o.Loss, err)
	}
	o.lossFile = lossFile{o.Loss, l}
	return nil
}
