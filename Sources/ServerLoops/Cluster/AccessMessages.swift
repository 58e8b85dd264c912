package import BrokerModel
package import Cluster

/// An order of the control thread to the bucket in which nodes share dynamic security and bans.
package enum AccessCommand: Sendable {
    /// Put dynamic security in the place of the one with the number `base`, in chunks; a verdict follows.
    case security(base: UInt64, [[UInt8]])
    /// Store a ban, or that it is lifted; `banAnswer` with `token` follows.
    case ban(BanEntry, token: UInt64)
    /// This node has brought its own of these, and goes by the cluster's from now on.
    case joined(AccessSubject)
}

/// A subject that the nodes of a cluster share.
package enum AccessSubject: String, CaseIterable, Sendable {
    case security = "dynsec"
    case bans
}

/// The bucket's news for the control thread, in the order of the bucket.
package enum AccessNews: Sendable {
    /// All that there is was read: these bans, and perhaps dynamic security, which is told next.
    case whole(AccessState)
    /// A ban was made or lifted, here or on another node.
    case ban(BanEntry)
    /// What became of a command: why it was not carried out; nil if it was, and all that holds on account of it was
    /// told.
    case banAnswer(token: UInt64, String?)
    /// Dynamic security is this, in chunks.
    case security(revision: UInt64, [[UInt8]])
    /// What became of the change that was ordered last.
    case verdict(DocumentVerdict)
}

/// The contents of the bucket when it has been read to the end.
package struct AccessState: Sendable {
    package var bans: [Ban] = []
    package var hasSecurity = false
    /// What this node has brought its own of, at some time.
    package var joined: Set<AccessSubject> = []

    package init(
        bans: [Ban] = [], hasSecurity: Bool = false, joined: Set<AccessSubject> = []
    ) {
        self.bans = bans
        self.hasSecurity = hasSecurity
        self.joined = joined
    }
}

/// A ban as nodes share it, or that it was lifted.
package struct BanEntry: Sendable, Equatable {
    package let target: BanTarget
    /// Nil for one that was lifted.
    package let ban: Ban?
    /// The maker of the ban, or who has lifted it.
    package let by: String

    package init(_ ban: Ban) { (target, self.ban, by) = (ban.target, ban, ban.by) }

    package init(lifted target: BanTarget, by: String) { (self.target, ban, self.by) = (target, nil, by) }
}
