public import BrokerModel

/// What a node has read in the log of how far each session has come, the newest of each: whoever takes a session up
/// reads the log from there, and not from where its record says, which may be minutes old.
///
/// What it does not know, because the node has begun to read later or has forgotten it, the record says.
///
/// Invariant: it holds `Limits.progressBytesMax` at most. Of two halves the older one is forgotten for a new one.
public struct ProgressTable {
    private var newer: [[UInt8]: FlowStep] = [:]
    private var older: [[UInt8]: FlowStep] = [:]
    private var byteCount = 0
    private let bytesMax: Int

    /// Nothing is known.
    public init() { self.init(bytesMax: Limits.progressBytesMax) }

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Learns what a record of the log says that counts.
    ///
    /// - Parameters:
    ///   - bundle: what stands in it.
    ///   - bytes: the record.
    public mutating func record(_ bundle: Bundle, _ bytes: UnsafeRawBufferPointer) {
        for said in bundle.entries.steps {
            if let progress = said.step.progress { record(Array(bytes[said.session]), said.step, progress) }
        }
    }

    private mutating func record(_ session: [UInt8], _ step: FlowStep, _ progress: SessionProgress) {
        let before = newer.updateValue(step, forKey: session)?.progress
        byteCount += Self.size(of: progress) - (before.map { Self.size(of: $0) } ?? -session.count - Self.entryBytes)
        guard byteCount > bytesMax / 2 else { return }
        (older, newer, byteCount) = (newer, [:], 0)
    }

    /// The step that said it last; nil if none is known.
    public func progress(of session: [UInt8]) -> FlowStep? { newer[session] ?? older[session] }

    private static func size(of progress: SessionProgress) -> Int { 8 * (progress.sequences.count + progress.receipts.count) }

    /// Of three arrays, a step and its place in a dictionary.
    private static let entryBytes = 260
}

extension Limits {
    /// Bytes of what a node knows of how far sessions of all nodes have come, of some 100,000 in each half; the oldest
    /// are forgotten for the next.
    static let progressBytesMax = 64 << 20
}
