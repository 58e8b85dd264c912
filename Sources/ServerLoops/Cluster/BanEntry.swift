package import BrokerModel

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
