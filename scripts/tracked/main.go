// Command tracked refuses files that git tracks by mistake in the repository of the current folder: files
// with conflict markers, files of more than a megabyte, and programs. It prints a line for each.
package main

import (
	"bytes"
	"debug/pe"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const largest = 1_000_000 // bytes of a tracked file

func main() {
	reasons, err := refused(".")
	for _, reason := range reasons {
		fmt.Fprintln(os.Stderr, reason)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tracked files:", err)
	}
	if err != nil || len(reasons) > 0 {
		os.Exit(1)
	}
}

// refused returns a line for each tracked file below the folder that does not belong in a repository. It
// passes over a removed file and a link: neither has contents.
func refused(folder string) (reasons []string, err error) {
	list := exec.Command("git", "ls-files", "-z")
	list.Dir, list.Stderr = folder, os.Stderr
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		path := filepath.Join(folder, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return reasons, err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return reasons, err
		}
		if reason := wrong(content); reason != "" {
			reasons = append(reasons, name+reason)
		}
	}
	return reasons, nil
}

// marker is the first or the last line of a conflict. The line between them may underline a title.
var marker = regexp.MustCompile(`(?m)^(<{7}|>{7}) `)

// wrong says after a file's name what is wrong with it and the way out, or nothing.
func wrong(content []byte) string {
	if format := executable(content); format != "" {
		return fmt.Sprintf(": a program (%s): remove it by git rm --cached, and name it in .gitignore",
			format)
	}
	if len(content) > largest {
		return fmt.Sprintf(": %d bytes, and a tracked file has at most %d: remove it by git rm --cached",
			len(content), largest)
	}
	if at := marker.FindIndex(content); at != nil {
		return fmt.Sprintf(":%d: a conflict marker: resolve the conflict",
			1+bytes.Count(content[:at[0]], []byte("\n")))
	}
	return ""
}

// executable names the format of a program or a library, by its first bytes, or nothing: a script is text.
func executable(content []byte) string {
	for magic, format := range map[string]string{
		"\x7fELF": "ELF",
		// Either order of bytes, 32 and 64 bits, and one file for several processors.
		"\xfe\xed\xfa\xce": "Mach-O", "\xfe\xed\xfa\xcf": "Mach-O", "\xce\xfa\xed\xfe": "Mach-O",
		"\xcf\xfa\xed\xfe": "Mach-O",
		"\xca\xfe\xba\xbe": "Mach-O", "\xca\xfe\xba\xbf": "Mach-O",
	} {
		if bytes.HasPrefix(content, []byte(magic)) {
			return format
		}
	}
	if bytes.HasPrefix(content, []byte("MZ")) { // text may begin with MZ too
		if _, err := pe.NewFile(bytes.NewReader(content)); err == nil {
			return "PE"
		}
	}
	return ""
}
