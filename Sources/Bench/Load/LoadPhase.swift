import Synchronization

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
