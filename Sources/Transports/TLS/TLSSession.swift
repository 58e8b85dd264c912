internal import COpenSSL

/// A session that a server gave to a client, to begin another connection with at less cost. Read only, from any thread.
final class TLSSession: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes over one reference.
    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit { SSL_SESSION_free(pointer) }
}
