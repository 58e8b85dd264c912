internal import Glibc
internal import Platform

/// What tells a file from what stood at its path before, through symbolic links, as they are exchanged to publish a new version.
public struct FileFingerprint: Equatable, Sendable {
    private let device: UInt64
    private let node: UInt64
    private let size: Int
    private let seconds: Int
    private let nanoseconds: Int

    /// nil when there is no file.
    public init?(path: String) {
        guard let status = SystemCall.status(of: path) else { return nil }
        device = UInt64(status.st_dev)
        node = UInt64(status.st_ino)
        size = Int(status.st_size)
        seconds = status.st_mtim.tv_sec
        nanoseconds = status.st_mtim.tv_nsec
    }
}
