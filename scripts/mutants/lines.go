package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// A line is a place in a file, whose name is relative to the repository.
type line struct {
	file   string
	number int // from 1
}

func (l line) compare(other line) int {
	return cmp.Or(strings.Compare(l.file, other.file), cmp.Compare(l.number, other.number))
}

// blamed is the head of a line in what `git blame --porcelain` prints: its commit and its number in the file.
var blamed = regexp.MustCompile(`(?m)^([0-9a-f]{40}) \d+ (\d+)`)

// changedLines returns the lines of Go and of Python in the working tree that commits of a range FIRST..LAST
// have added.
func changedLines(ctx context.Context, root, commits string) (map[line]bool, error) {
	first, last, ok := strings.Cut(commits, "..")
	if !ok || first == "" || last == "" {
		return nil, fmt.Errorf("--range %s: it is FIRST..LAST, such as HEAD~50..HEAD", commits)
	}
	list, err := git(ctx, root, "rev-list", commits, "--")
	if err != nil {
		return nil, err
	}
	within := map[string]bool{}
	for _, commit := range strings.Fields(list) {
		within[commit] = true
	}
	files, err := git(ctx, root, "diff", "-z", "--name-only", "--diff-filter=d", first, "--", "*.go", "*.py")
	if err != nil {
		return nil, err
	}
	lines := map[line]bool{}
	for name := range strings.SplitSeq(strings.TrimSuffix(files, "\x00"), "\x00") {
		if name == "" {
			continue
		}
		text, err := git(ctx, root, "blame", "-w", "--porcelain", "^"+first, "--", name)
		if err != nil {
			return nil, err
		}
		for _, head := range blamed.FindAllStringSubmatch(text, -1) {
			number, err := strconv.Atoi(head[2])
			if err != nil {
				return nil, fmt.Errorf("git blame %s: %w", name, err)
			}
			if within[head[1]] {
				lines[line{name, number}] = true
			}
		}
	}
	return lines, nil
}

// git returns what git prints in a folder.
func git(ctx context.Context, folder string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = folder
	var why strings.Builder
	command.Stderr = &why
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(why.String()))
	}
	return string(out), nil
}
