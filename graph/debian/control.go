package debian

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// entry is what the graph needs of one paragraph of a Packages list.
type entry struct {
	name, version string
	section       string // with its area prefix; "": the paragraph has no section
	synopsis      string // the one-line description
	relations     string // Depends, Pre-Depends, Recommends and Suggests, joined by commas
}

// maxLine bounds a line of a list, in bytes. The longest lines of the Debian archive, dependencies of
// metapackages, have some ten thousand.
const maxLine = 1 << 20

// parsePackages reads the paragraphs of a Packages list in the control format of deb822(5), and calls keep
// for each package in turn. Fields are one line each. Only relations may be folded; continuation lines of
// other fields are skipped. An error names the line.
func parsePackages(r io.Reader, keep func(entry)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var (
		p          entry
		relations  []byte
		inRelation bool // the last field was a relation
		first      int  // line on which the paragraph began; 0: between paragraphs
		number     int
	)
	finish := func() error {
		if first == 0 {
			return nil
		}
		if p.name == "" || p.version == "" {
			return fmt.Errorf("the paragraph from line %d lacks a Package or a Version field", first)
		}
		p.relations = string(relations)
		keep(p)
		p, relations, inRelation, first = entry{}, relations[:0], false, 0
		return nil
	}
	for lines.Scan() {
		number++
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			if err := finish(); err != nil {
				return err
			}
			continue
		}
		if folded := line[0] == ' ' || line[0] == '\t'; folded && first > 0 {
			if inRelation {
				relations = append(relations, line...)
			}
			continue
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || bytes.ContainsAny(name, " \t") || len(name) == 0 {
			return fmt.Errorf("line %d is neither a field nor the continuation of one", number)
		}
		if first == 0 {
			first = number
		}
		inRelation = false
		value = bytes.TrimSpace(value)
		switch strings.ToLower(string(name)) {
		case "package":
			p.name = string(value)
			if utf8.Valid(value) && !validName(p.name) {
				return fmt.Errorf("line %d: %.80q is not a package name", number, p.name)
			}
		case "version":
			p.version = string(value)
		case "section":
			p.section = string(value)
		case "description":
			p.synopsis = string(value)
		case "depends", "pre-depends", "recommends", "suggests":
			relations = append(append(relations, ','), value...)
			inRelation = true
		default:
			continue
		}
		if !utf8.Valid(value) {
			return fmt.Errorf("line %d is not UTF-8", number)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", number+1, maxLine)
	} else if err != nil {
		return err
	}
	return finish()
}

// validName reports whether name is a package name: lower-case letters, digits, plus, minus and full stop,
// the first a letter or a digit.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if alphanumeric := 'a' <= c && c <= 'z' ||
			isDigit(c); !alphanumeric && (i == 0 || !strings.ContainsRune("+-.", rune(c))) {
			return false
		}
	}
	return name != ""
}

// relationTargets yields the package names of a relation field (deb-control(5)): every alternative of every
// dependency, in the order written. It leaves out versions, "(>= 1.2)", architecture qualifiers, ":any",
// architectures, "[amd64]", and build profiles, "<!nocheck>".
func relationTargets(relations string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for relation := range strings.FieldsFuncSeq(relations,
			func(r rune) bool { return r == ',' || r == '|' }) {
			name := strings.TrimSpace(relation)
			if end := strings.IndexAny(name, " \t:([<"); end >= 0 {
				name = name[:end]
			}
			if name != "" && !yield(name) {
				return
			}
		}
	}
}
