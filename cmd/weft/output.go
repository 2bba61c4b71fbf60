package main

import (
	"errors"
	"fmt"
	"os"
)

// output is a file that the command prints on. It remembers the first write that failed: results that did not arrive are a
// failure of the command.
type output struct {
	*os.File
	failed error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if err != nil && o.failed == nil {
		o.failed = err
	}
	return n, err
}

// check says what went wrong with printing, nil if nothing did.
func (o *output) check() error {
	if o.failed == nil {
		return nil
	}
	reason := o.failed
	if path := (*os.PathError)(nil); errors.As(reason, &path) {
		reason = path.Err
	}
	return fmt.Errorf("standard output: %w", reason)
}
