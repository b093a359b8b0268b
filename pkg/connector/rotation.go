package connector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/oauth2"
)

// lockPause is how often a lock that another process holds is tried.
const lockPause = 20 * time.Millisecond

// rotation is a refresh token that could not be written back: it is used, and written first, as long as the file still has the one
// that it replaced.
type rotation struct{ was, is string }

// refreshByFile gets an access token by the refresh token in a file, which all replicas share. Where the server gives another one
// in its place, that is written back before anybody else can use the first again: the lock is held from reading to writing, so
// that each replica asks with what the last one got. Where the directory cannot be written, as that of a mounted secret, there is
// no lock, and a server that rotates is an error.
func (o *oauth) refreshByFile(ctx context.Context, secret string) (*oauth2.Token, error) {
	file := o.declared.RefreshToken.File
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	unlock, err := lockBeside(ctx, file)
	if err != nil {
		return nil, err
	}
	defer unlock()
	held, err := o.refreshToken()
	if err != nil {
		return nil, err
	}
	if o.rotate.was == held {
		if err := o.writeBack(file); err != nil {
			return nil, err
		}
		held = o.rotate.is
	}
	o.rotate = rotation{}
	token, err := o.refresh(ctx, secret, held)
	if err != nil || token.RefreshToken == held {
		return token, err
	}
	o.rotate = rotation{was: held, is: token.RefreshToken}
	return token, o.writeBack(file)
}

func (o *oauth) writeBack(file string) error {
	if err := replaceFile(file, o.rotate.is+"\n"); err != nil {
		return fmt.Errorf("the token server gave another refresh token, which cannot be written back and is kept in memory: %w", err)
	}
	return nil
}

// lockBeside locks the file's sibling for this process alone, and waits for it until the context ends. The file itself cannot be
// the lock, because it is replaced.
func lockBeside(ctx context.Context, file string) (unlock func(), err error) {
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the refresh token: %w", err)
	}
	for {
		taken, err := tryLock(lock)
		if taken {
			return func() { _ = lock.Close() }, nil // closing gives the lock back
		}
		if err == nil {
			timer := time.NewTimer(lockPause)
			select {
			case <-timer.C:
				continue
			case <-ctx.Done():
				err = fmt.Errorf("%w: another process holds it", ErrUnavailable)
			}
			timer.Stop()
		}
		_ = lock.Close()
		return nil, fmt.Errorf("lock the refresh token: %w", err)
	}
}

// replaceFile replaces what is in a file, so that a crash leaves the one or the other, and keeps its permissions.
func replaceFile(name, text string) (err error) {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(name); err == nil {
		mode = info.Mode().Perm()
	}
	folder := filepath.Dir(name)
	temp, err := os.CreateTemp(folder, filepath.Base(name)+".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	_, err = temp.WriteString(text)
	if err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), name); err != nil {
		return err
	}
	return syncFolder(folder)
}

// syncFolder makes a rename last. Some file systems cannot, and the file is there all the same.
func syncFolder(folder string) error {
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	if err := opened.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return errors.Join(err, opened.Close())
	}
	return opened.Close()
}
