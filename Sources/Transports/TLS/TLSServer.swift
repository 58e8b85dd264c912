internal import Platform

/// A listener's TLS over its whole life: the context that new connections get, replaced when its files change.
///
/// `current` may be asked from any thread; the rest belongs to one, the control thread. Connections keep the context that they began
/// with.
public final class TLSServer: @unchecked Sendable {
    /// What a look at the files came to.
    public enum Refresh: Sendable {
        case unchanged
        /// New connections get what the files hold now.
        case renewed
        /// The files have changed and cannot be used; what was read before goes on. Told once per change.
        case failed(TLSFailure)
    }

    private let context: Locked<TLSContext>
    public private(set) var settings: TLSSettings
    /// The files as they were when they were last read, or tried.
    private var fingerprints: [FileFingerprint?]

    public init(_ settings: TLSSettings) throws(TLSFailure) {
        self.settings = settings
        // Before reading: a change while we read is found later.
        fingerprints = Self.fingerprints(of: settings)
        context = Locked(try TLSContext(settings))
    }

    public var current: TLSContext { context.value }

    /// Reads the files again if one of them is another than when they were last read.
    public func refreshIfChanged() -> Refresh {
        Self.fingerprints(of: settings) == fingerprints ? .unchanged : refresh()
    }

    /// Reads the files again, with other settings if they are given.
    public func refresh(_ newSettings: TLSSettings? = nil) -> Refresh {
        let wanted = newSettings ?? settings
        // Before reading, so that a change while we read is found later.
        let (ofOld, ofWanted) = (Self.fingerprints(of: settings), Self.fingerprints(of: wanted))
        do throws(TLSFailure) {
            context.replace(with: try TLSContext(wanted))
            settings = wanted
            fingerprints = ofWanted
            return .renewed
        } catch {
            // Told once: the next look finds nothing new, unless somebody mends the files.
            fingerprints = ofOld
            return .failed(error)
        }
    }

    private static func fingerprints(of settings: TLSSettings) -> [FileFingerprint?] {
        settings.watchedPaths.map { FileFingerprint(path: $0) }
    }
}
