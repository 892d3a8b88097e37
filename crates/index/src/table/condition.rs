//! Conditions on attributes, as expressions over rows.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray};
use arrow::datatypes::DataType;
use clew_core::{Attributes, Condition};
use lancedb::datafusion::common::{DataFusionError, Result};
use lancedb::datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use lancedb::datafusion::prelude::Expr;
use lancedb::expr::col;

use crate::table::column;
use crate::table::rows::arrays::{attribute_name, attribute_value};

/// Returns the expression that is true of rows of `chunks` or `sources` that meet a condition.
pub(crate) fn meets(condition: &Condition) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Meets { condition: Arc::new(condition.clone()), signature })
        .call(vec![col(column::ATTRIBUTES)])
}

/// Function of the column of attributes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Meets {
    condition: Arc<Condition>,
    signature: Signature,
}

impl ScalarUDFImpl for Meets {
    fn name(&self) -> &'static str {
        "meets_condition"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let lists = columns.first().and_then(|column| column.as_list_opt::<i32>());
        let lists = lists.ok_or_else(|| damaged("attributes are no list"))?;
        let texts = lists.values().as_string_opt::<i32>();
        let texts = texts.ok_or_else(|| damaged("attributes are no texts"))?;
        let mut names = HashSet::new();
        self.condition.each_name(&mut |name| {
            names.insert(name.as_str());
        });
        let meets = lists.offsets().windows(2).map(|ends| {
            // Only the attributes that the condition tests.
            let mut attributes = Attributes::new();
            for at in ends[0]..ends[1] {
                let stored = texts.value(at as usize);
                let (name, value) =
                    attribute_name(stored).ok_or_else(|| damaged("an attribute has no name"))?;
                if names.contains(name) {
                    let value = attribute_value(value);
                    let value = value.ok_or_else(|| damaged("an attribute has no value"))?;
                    let name = name.to_owned().try_into();
                    let name = name.map_err(|_| damaged("an attribute has a bad name"))?;
                    attributes.insert(name, value);
                }
            }
            Ok::<_, DataFusionError>(self.condition.holds(&attributes))
        });
        let meets = meets.collect::<Result<Vec<bool>>>()?;
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(meets))))
    }
}

fn damaged(problem: &str) -> DataFusionError {
    DataFusionError::Execution(problem.to_owned())
}
