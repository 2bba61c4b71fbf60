// Package cache says where weft keeps what it could make again. Made graphs, measured rates and compiled
// kernels are kept there.
package cache

import (
	"os"
	"path/filepath"
)

// Root is the folder of weft's cache, there or not; empty when the user has none.
func Root() string {
	if root := os.Getenv("WEFT_CACHE"); root != "" {
		return root
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(user, "weft")
}
