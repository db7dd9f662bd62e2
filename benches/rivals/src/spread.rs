//! What a figure was over the rounds.

#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub p25: f64,
    pub p75: f64,
    pub rounds: usize,
}

impl Spread {
    /// # Panics
    /// Where there is no figure.
    pub fn of(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        // Between the two nearest ones, in proportion.
        let at = |share: f64| {
            let place = share * (figures.len() - 1) as f64;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let below = place.floor() as usize;
            let above = (below + 1).min(figures.len() - 1);
            figures[below] + (figures[above] - figures[below]) * place.fract()
        };
        Spread { median: at(0.5), p25: at(0.25), p75: at(0.75), rounds: figures.len() }
    }
}
