/// The bounds of the values that a broker and what stands around it share, which no option sets: each with its unit and
/// what happens beyond it.
package enum SharedLimits {
    /// Of so many share groups of a message of a cluster's log it is known which one has dispatched to it.
    package static let namedSharesMax = 126

    /// Bans of administrators at the same time: no more are made. Bytes: `bansBytesMax`.
    package static let bansMax = 10_000

    /// Bytes of memory that they take: no more are made.
    package static let bansBytesMax = 16 << 20

    /// Bans that the broker has made by itself, beside those: the oldest one goes for the next. Bytes:
    /// `automaticBansBytesMax`.
    package static let automaticBansMax = 2000

    /// Bytes of memory that they take: the oldest ones go for the next.
    package static let automaticBansBytesMax = 2 << 20

    /// Of these, bans of the clients that one user comes with, or that come from one address: its oldest one goes for
    /// the next. Bytes: `automaticBansBytesMax`.
    package static let automaticBansPerOriginMax = 100

    /// How many clients, addresses or users a shard counts offences of at the same time: no other is counted until the
    /// window of one is over. Bytes: 40 each, names are hashed; addresses are texts of 50.
    package static let offendersMax = 10_000

    /// Of these, clients that come from one address: no other one of it is counted until one's window is over.
    package static let offendersPerOriginMax = 500

    /// Traces at a time; each has a bit.
    package static let tracesMax = 8
}
