package debian

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// release is what the graph needs of a repository's InRelease or Release file.
type release struct {
	origin, codename, date string
	// sizes are the decoded sizes of the files that the repository lists, by their paths there.
	sizes map[string]int64
}

// list is one Packages list in apt's directory.
type list struct {
	path        string
	compression string // the file name's suffix; "": plain
	size        int64  // decoded size in bytes as the repository states it; −1: it does not
}

// index is the Packages lists in apt's directory.
type index struct {
	lists    []list    // of the Debian origin, by name
	releases []release // the repositories of the lists, in the same order, each once
	others   int       // how many lists are left out
	unknown  []string  // the names of those whose origin no file tells
}

// debianLists finds the lists.
func debianLists(dir string) (*index, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, refusal.Errorf("%v: name the folder of a Debian machine's package lists, after apt-get "+
			"update there", err)
	}
	repositories := map[string]release{} // by the file name's part before _InRelease or _Release
	for _, suffix := range []string{"_Release", "_InRelease"} {
		for _, f := range files {
			if prefix, found := strings.CutSuffix(f.Name(), suffix); found && !f.IsDir() {
				path := filepath.Join(dir, f.Name())
				if repositories[prefix], err = readRelease(path); err != nil {
					return nil, refusal.Errorf("%s: %v: run apt-get update to fetch it again", path, err)
				}
			}
		}
	}
	found := &index{}
	used := map[string]bool{}
	for _, f := range files {
		stem, compression, isList := strings.Cut(f.Name(), "_Packages")
		if !isList || f.IsDir() ||
			!slices.Contains([]string{"", ".lz4", ".gz", ".xz", ".bz2", ".lzma", ".zst"}, compression) {
			continue
		}
		prefix := repositoryOf(stem, repositories)
		r := repositories[prefix]
		if prefix == "" {
			found.unknown = append(found.unknown, f.Name())
		}
		if r.origin != "Debian" {
			found.others++
			continue
		}
		l := list{path: filepath.Join(dir, f.Name()), compression: compression, size: -1}
		inside := strings.ReplaceAll(strings.TrimPrefix(stem, prefix+"_"), "_", "/") + "/Packages"
		if size, stated := r.sizes[inside]; stated {
			l.size = size
		}
		found.lists = append(found.lists, l)
		if !used[prefix] {
			used[prefix] = true
			found.releases = append(found.releases, r)
		}
	}
	if len(found.lists) == 0 {
		return nil, refusal.Errorf("%s: no Packages list of the Debian origin (%d of others): run apt-get "+
			"update on a Debian machine, or name the folder of its lists", dir, found.others)
	}
	return found, nil
}

// repositoryOf returns the longest repository prefix with which a list's name begins; "": there is none.
func repositoryOf(stem string, repositories map[string]release) string {
	for end := len(stem); end > 0; end = strings.LastIndexByte(stem[:end], '_') {
		if _, found := repositories[stem[:end]]; found {
			return stem[:end]
		}
	}
	return ""
}

// readRelease reads the fields that matter, of the form "Name: value", and the files listed under SHA256,
// whose lines are " checksum size path". It does not check the signature: apt did that before it kept the
// file.
func readRelease(path string) (release, error) {
	f, err := os.Open(path)
	if err != nil {
		return release{}, errors.Unwrap(err)
	}
	defer f.Close()
	r := release{sizes: map[string]int64{}}
	lines := bufio.NewScanner(f)
	inSHA256 := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, " ") {
			if words := strings.Fields(line); inSHA256 && len(words) == 3 &&
				strings.HasSuffix(words[2], "/Packages") {
				if size, err := strconv.ParseInt(words[1], 10, 64); err == nil && size >= 0 {
					r.sizes[words[2]] = size
				}
			}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		inSHA256 = name == "SHA256"
		switch name {
		case "Origin":
			r.origin = value
		case "Codename":
			r.codename = value
		case "Date":
			r.date = value
		}
	}
	return r, lines.Err()
}

// maxDecoded bounds what a list may decode to, in bytes, if the repository does not state a size. It is
// twenty times Debian's largest.
const maxDecoded = 1 << 30

// read passes every package of the list to keep.
func (l *list) read(keep func(entry)) error {
	f, err := os.Open(l.path)
	if err != nil {
		return refusal.Errorf("%v: run apt-get update, or read the lists as a user who may", err)
	}
	defer f.Close()
	err = l.parse(f, keep)
	if refusal.Is(err) {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if err != nil {
		return refusal.Errorf("%s: %v: run apt-get update to fetch it again", l.path, err)
	}
	return nil
}

func (l *list) parse(file io.Reader, keep func(entry)) error {
	decoded, err := decode(file, l.compression)
	if err != nil {
		return explain(err)
	}
	limit := l.size
	if limit < 0 {
		limit = maxDecoded
	}
	counted := &countingReader{r: decoded, limit: limit}
	err = parsePackages(counted, keep)
	// A list that ends early makes the parser fail at its last line. That it ends early is the better reason.
	switch {
	case errors.Is(counted.err, io.EOF) && counted.n < l.size:
		return fmt.Errorf("cut short at %d of %d bytes", counted.n, l.size)
	case counted.err != nil && !errors.Is(counted.err, io.EOF):
		return explain(counted.err)
	}
	return err
}

// decode wraps a list's file in the reader of its compression.
func decode(file io.Reader, compression string) (io.Reader, error) {
	buffered := bufio.NewReaderSize(file, 64<<10)
	switch compression {
	case "":
		return buffered, nil
	case ".lz4":
		return lz4.NewReader(buffered), nil
	case ".gz":
		return gzip.NewReader(buffered)
	case ".xz":
		if err := checkDictionary(buffered); err != nil {
			return nil, err
		}
		return xz.NewReader(buffered)
	default:
		return nil, fmt.Errorf("%s is not read, only plain lists, .lz4, .gz and .xz", compression)
	}
}

// maxDictionary is the largest accepted LZMA2 dictionary, in bytes: that of xz -9.
const maxDictionary = 64 << 20

// checkDictionary refuses an xz file whose first block asks for a larger dictionary than maxDictionary, as
// the decoder allocates what the header says, up to 4 GiB. It leaves a header that it cannot follow to the
// decoder. (The layout is in the .xz file format specification 1.2, sections 2.1.1 and 3.1.)
func checkDictionary(file *bufio.Reader) error {
	const streamHeader, lzma2 = 12, 0x21
	header, _ := file.Peek(streamHeader + 32)
	if len(header) < streamHeader+2 {
		return nil
	}
	flags, fields := header[streamHeader+1], header[streamHeader+2:]
	next := func() (value uint64) {
		value, n := binary.Uvarint(fields)
		fields = fields[max(n, 0):]
		return value
	}
	if flags&0x40 != 0 {
		next() // compressed size
	}
	if flags&0x80 != 0 {
		next() // uncompressed size
	}
	if filter, properties := next(), next(); filter != lzma2 || properties != 1 || len(fields) == 0 {
		return nil
	}
	// Dictionary sizes are 2 or 3 times a power of two.
	if bits := int(fields[0]); (2|bits&1)<<(bits/2+11) > maxDictionary {
		return fmt.Errorf("asks for a dictionary larger than %d MiB", maxDictionary>>20)
	}
	return nil
}

// explain says what an unexpected end of a compressed file means.
func explain(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the compressed file is cut short")
	}
	return err
}

// countingReader counts the bytes that pass. It fails beyond a limit or the memory, and keeps the error that
// ended it.
type countingReader struct {
	r        io.Reader
	n, limit int64
	checked  int64 // up to here there was memory for the packages
	err      error
}

func (c *countingReader) Read(p []byte) (n int, err error) {
	// The shortest paragraph has 24 bytes, and makes a map entry of 200 bytes.
	const step, growth = 1 << 20, 8
	n, c.err = c.r.Read(p)
	c.n += int64(n)
	if c.n > c.limit {
		n = 0
		c.err = fmt.Errorf("decodes to more than %d bytes", c.limit)
	}
	if c.n > c.checked && (c.err == nil || errors.Is(c.err, io.EOF)) {
		c.checked = c.n + step
		if short := memory.Need(growth * (step + int64(len(p)))); short != nil {
			n, c.err = 0, short
		}
	}
	return n, c.err
}
