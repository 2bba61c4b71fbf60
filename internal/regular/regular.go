// Package regular opens regular files only. Opening a named pipe waits for a writer, perhaps for ever. All
// readers of users' files call it.
package regular

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// Open opens the regular file of that name for reading, and returns its size. It refuses anything else by
// name, and a missing file.
func Open(path string) (f *os.File, size int64, err error) {
	return open(path, path, os.Stat, os.Open)
}

// OpenIn is Open for the file of that name in a folder. A link that leads out of the folder is refused.
func OpenIn(folder *os.Root, name string) (f *os.File, size int64, err error) {
	path := filepath.Join(folder.Name(), name)
	if _, err := folder.Stat(name); err != nil {
		if _, err := os.Stat(path); err == nil {
			return nil, 0, refusal.Errorf("%s: a link leads out of the folder %s, and no file elsewhere is "+
				"read; put the file there", path, folder.Name())
		}
	}
	return open(path, name, folder.Stat, folder.Open)
}

// open opens the file that its folder calls by that name.
func open(path, name string, stat func(string) (fs.FileInfo, error),
	openFile func(string) (*os.File, error),
) (f *os.File, size int64, err error) {
	info, err := stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, refusal.Errorf("%s: is a %s, not a file", path, kind(info.Mode()))
	}
	if err == nil {
		f, err = openFile(name)
	}
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) { // the file is not at fault
			return nil, 0, fmt.Errorf("%s: %w; allow this process more (ulimit -n)", path, err)
		}
		return nil, 0, refusal.Errorf("%s: %w", path, err)
	}
	return f, info.Size(), nil
}

// ReadFile reads the regular file of that name. It refuses a file that exceeds the memory.
func ReadFile(path string) ([]byte, error) {
	f, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := memory.Need(size); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	content := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead)) // room to find the end without growing
	_, err = content.ReadFrom(f)
	return content.Bytes(), err
}

// SHA256 returns the checksum of the regular file of that name, in hexadecimal. It calls tell with each
// number of bytes that it has read.
func SHA256(path string, tell func(bytes int)) (string, error) {
	f, _, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	buffer := make([]byte, 64<<10)
	for {
		n, err := f.Read(buffer)
		h.Write(buffer[:n])
		tell(n)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
