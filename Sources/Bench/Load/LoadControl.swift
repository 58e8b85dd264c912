import Synchronization

/// What the coordinator tells the workers, and what they tell it. For all threads.
final class LoadControl: Sendable {
    private let currentPhase = Atomic<LoadPhase>(.connecting)
    private let forgivenMessages = Atomic<UInt64>(0)
    /// One for each worker.
    let progress: [WorkerProgress]

    init(workerCount: Int) {
        progress = (0..<workerCount).map { _ in WorkerProgress() }
    }

    var phase: LoadPhase {
        get { currentPhase.load(ordering: .acquiring) }
        set { currentPhase.store(newValue, ordering: .releasing) }
    }

    /// Messages that a closed loop no longer waits for, because nothing came for a second.
    var forgiven: UInt64 { forgivenMessages.load(ordering: .relaxed) }

    func forgive(_ count: UInt64) { forgivenMessages.add(count, ordering: .relaxed) }

    /// What all workers have told last.
    var total: LoadCounts { progress.reduce(into: LoadCounts()) { $0.add($1.counts) } }
}

/// What a run is at. The coordinator moves it on; workers look at it in each turn.
enum LoadPhase: UInt8, AtomicRepresentable {
    /// Connections are made; nothing is published.
    case connecting
    /// Messages flow, and nobody measures.
    case warming
    case measuring
    /// Nothing more is published; what is on its way may arrive.
    case draining
    /// Loops end.
    case over
}
